"""The programs, their loads, and what each needs.

A case says how its input is made, which command runs the program, and which files the command writes. `small`
is the size for `make test`, `big` the one for `make test-programs`. If a size has parts, they are the number
of entries, the size of each, and the heap: with fewer entries, each page is touched less often.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

LOAD = Path(__file__).resolve().parent / "load"
# The interpreter itself, since a shim on the PATH may be a script.
PYTHON = sys.executable


@dataclass
class Case:
    """One program test."""

    name: str
    small: int | tuple
    big: int | tuple
    command: Callable[[int], list]
    needs: tuple = ()
    prepare: Callable[[Path, int], None] = lambda directory, size: None
    outputs: tuple = ()  # files that the command writes, which are compared, too
    processes: int = 1  # at least this many must have been managed
    client: Callable[[int, Path], list] | None = None  # runs beside a server, outside of the tree
    packages: tuple = ()  # Debian packages
    environment: dict = field(default_factory=dict)
    only_big: bool = False
    stderr_stable: bool = True

    def missing(self):
        """What this machine lacks for the case, as a text; empty if nothing."""
        return ", ".join(need for need in self.needs if not shutil.which(need) and not PROVIDERS.get(need, lambda: None)())


def numpy_python():
    """An interpreter that has numpy: this one or the system's."""
    for python in (PYTHON, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


def redis_server():
    """The server. Debian's redis-tools also contains it, under the name of the checker, which is the same
    program.
    """
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


# Needs that are not the name of a command.
PROVIDERS = {"numpy": numpy_python, "redis-server": redis_server}


def output_of(command, path, **options):
    with open(path, "wb") as out:
        subprocess.run(command, stdout=out, check=True, **options)


def lines(directory, size):
    output_of(["awk", "-v", f"n={size[0]}", "-v", f"w={size[1]}", "-f", LOAD / "lines.awk"], directory / "lines")


def compiled_java(directory, size):
    subprocess.run(["javac", "-d", directory, LOAD / "Heap.java"], check=True)


def redis_link(directory, size):
    # The program's name decides whether it is the server or the checker.
    (directory / "redis-server").symlink_to(redis_server())


# In a cgroup with a small limit, which the benchmark uses for some peers, both make their heap and collector
# smaller. With these options the program is the same under every peer.
NODE_HEAP = ("--max-old-space-size=4144", "--max-semi-space-size=16")
NO_CONTAINER = ("-XX:-UseContainerSupport",)


def java(name, *options, only_big=False):
    return Case(f"java-{name}", (30_000, 300, 120), (400_000, 6, 480),
                lambda size: ["java", f"-Xmx{size[2]}m", *options, *NO_CONTAINER, "-XX:-UsePerfData", "-cp", ".", "Heap", *size[:2]],
                needs=("java", "javac"), packages=("default-jdk-headless",), prepare=compiled_java, only_big=only_big)


def redis(name, saves, only_big=False):
    return Case(name, 80_000, 200_000,
                lambda size: ["./redis-server", "--port", 0, "--unixsocket", "redis.sock", "--save", "", "--dir", ".",
                              "--daemonize", "no"],
                client=lambda size, directory: [PYTHON, LOAD / "redis_client.py", "redis.sock", size] + (
                    [directory] if saves else []),
                needs=("redis-server", "redis-benchmark"), packages=("redis-tools",), prepare=redis_link,
                processes=2 if saves else 1, stderr_stable=False, only_big=only_big)


CASES = [
    Case("python-json", 40_000, 110_000, lambda size: [PYTHON, LOAD / "python_json.py", size]),
    Case("python-numpy", 110, 300, lambda size: [numpy_python(), LOAD / "python_numpy.py", size],
         needs=("numpy",), packages=("python3-numpy",)),
    Case("python-workers", 60_000, 130_000, lambda size: [PYTHON, LOAD / "python_workers.py", size], processes=5),
    Case("node", (25_000, 100), (400_000, 0), lambda size: ["node", *NODE_HEAP, LOAD / "node.js", *size], needs=("node",),
         packages=("nodejs",)),
    java("default"),
    java("serial", "-XX:+UseSerialGC"),
    java("parallel", "-XX:+UseParallelGC", only_big=True),
    java("shenandoah", "-XX:+UseShenandoahGC", only_big=True),
    redis("redis", saves=False),
    redis("redis-save", saves=True, only_big=True),
    Case("sqlite", 300_000, 600_000, lambda size: ["sqlite3", "-init", "load.sql", ":memory:", ".quit"],
         needs=("sqlite3",), packages=("sqlite3",),
         prepare=lambda directory, size: output_of([PYTHON, LOAD / "sqlite.py", str(size)], directory / "load.sql")),
    Case("sort", (120_000, 80), (4_000_000, 0), lambda size: ["sort", "-S", "2G", "--parallel=2", "lines", "-o", "sorted"],
         needs=("sort", "awk"), prepare=lines, outputs=("sorted",), environment={"LC_ALL": "C"}),
    Case("g++", 10, 40, lambda size: ["g++", "-std=c++17", "-O1", "-c", "big.cpp", "-o", "big.o"],
         needs=("g++",), packages=("g++",), outputs=("big.o",), processes=2,
         prepare=lambda directory, size: output_of([PYTHON, LOAD / "cpp_source.py", "c++", str(size)], directory / "big.cpp")),
    Case("make-j2", 300, 1000, lambda size: ["sh", "-c", "make -s -B -j2 && ./program"],
         needs=("make", "gcc"), packages=("make", "gcc"), outputs=tuple(f"part{number}.o" for number in range(4)),
         processes=8,
         prepare=lambda directory, size: subprocess.run(
             [PYTHON, LOAD / "cpp_source.py", "project", "4", str(size), directory], check=True)),
    Case("pipeline", (60_000, 60), (2_500_000, 0), lambda size: ["sh", LOAD / "pipeline.sh", "lines"],
         needs=("sort", "awk", "uniq"), prepare=lines, processes=7, environment={"LC_ALL": "C"}),
]
