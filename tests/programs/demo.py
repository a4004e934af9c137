#!/usr/bin/env python3
"""The demonstration, in three parts:

1. a build that is killed in a container, and completes there under `memfold run`;
2. an idle server that shrinks;
3. what the build takes with less and less memory.

Where no memory cgroup can be made, this script kills the build itself when it exceeds its memory.
"""

import argparse
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import memory
from cases import LOAD, PYTHON

MIB = memory.MIB
SHARE = 60  # percent of what the build takes
IDLE = 2  # seconds after which the server's memory is compressed


class Build:
    """A Rust build in a directory of its own."""

    def __init__(self, memfold, directory, structs):
        self.memfold, self.directory = memfold, Path(directory)
        source = subprocess.run([PYTHON, LOAD / "records.py", str(structs)], check=True, capture_output=True)
        (self.directory / "records.rs").write_bytes(source.stdout)

    def run(self, before=(), **options):
        """Runs it; returns the run, what it made, and its standard error."""
        made, out, err = (self.directory / name for name in ("librecords.rlib", "out", "err"))
        made.unlink(missing_ok=True)
        command = [*before, "rustc", "--edition=2024", "--crate-type=lib", "-Cdebuginfo=0", "records.rs"]
        done = memory.run([str(part) for part in command], self.directory, stdout=out, stderr=err, **options)
        return done, made.read_bytes() if made.exists() else b"", err.read_text()

    def folded(self, *options, **more):
        done, made, words = self.run([self.memfold, "run", *options, "--"], count_shared=True, **more)
        if done.status[0]:
            sys.exit(f"FAILED: memfold run ended with status {done.status[0]}\n{words}")
        return done, made, words


def killed(build, size):
    """The build with this much memory: in a cgroup, or killed by this script."""
    def kill(meter, used):
        if used > size and isinstance(meter, memory.Tree):
            for pid in meter.pids():
                memory.kill(pid)
    return build.run(on_sample=kill, hard_limit=size if has_cgroup() else None, swap=False)


def has_cgroup():
    group = memory.Cgroup.make("demo")
    if group:
        group.close()
    return group is not None


def row(name, done, words):
    peak = f"{done.peak / MIB:7.0f} MiB"
    print(f"  {name:30}{peak}{done.wall:8.1f} s {done.cpu:8.1f} s   {words}", flush=True)


def build_part(build):
    in_cgroup = has_cgroup()
    print("A Rust build, in a container of", f"{SHARE} % of the memory that it takes"
          + ("" if in_cgroup else " (no cgroup can be made here: this script kills it)"))
    print(f"  {'':30}{'memory':>11}{'time':>10}{'CPU':>11}", flush=True)
    # The first run reads rustc from the disk, the others do not.
    build.run()
    plain, right, words = build.run()
    if plain.status[0] or not right:
        sys.exit(f"FAILED: rustc ended with status {plain.status[0]}\n{words}")
    row("with enough memory", plain, f"{len(right):,} bytes")
    size = plain.peak * SHARE // 100 // MIB * MIB
    done, made, _ = killed(build, size)
    row(f"in {size // MIB} MiB", done, "Killed" if done.status[0] == -9 else "completed")
    options = [] if in_cgroup else ["--limit", size]
    folded, made, words = build.folded(*options, hard_limit=size if in_cgroup else None, swap=False)
    row(f"in {size // MIB} MiB, memfold run", folded, "the same bytes" if made == right else "OTHER BYTES")
    print(f"  {words.strip()}")
    if done.status[0] != -9:
        sys.exit("FAILED: the build needs no more memory than the container has")
    if made != right:
        sys.exit("FAILED: the build made something else")
    over, _ = memory.excess(folded.samples, size)
    if over:
        sys.exit(f"FAILED: the build exceeded its memory and the tolerance by {over / MIB:.1f} MiB")
    return plain, right


def get(port, number):
    """One customer, and the milliseconds that it took."""
    begin = time.monotonic()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", f"/{number}")
        return json.loads(connection.getresponse().read()), (time.monotonic() - begin) * 1000


def server_part(memfold, customers):
    print(f"\nA server with {customers:,} customers in memory, memfold run --proactive={IDLE}", flush=True)
    words = [memfold, "run", "--quiet", f"--proactive={IDLE}", "--", PYTHON, LOAD / "server.py", customers]
    meter = memory.Cgroup.make("server") or memory.Tree()
    with contextlib.closing(meter):
        server = subprocess.Popen(meter.entry([str(word) for word in words]), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        if isinstance(meter, memory.Tree):
            meter.root = server.pid
        port = int(server.stdout.readline())
        before = sum(meter.sample())
        print(f"  filled                        {before / MIB:7.0f} MiB", flush=True)
        least, end = before, time.monotonic() + 25
        while time.monotonic() < end and least * 3 > before:
            time.sleep(0.5)
            least = min(least, sum(meter.sample()))
        print(f"  idle for some seconds         {least / MIB:7.0f} MiB", flush=True)
        asked = [(at * 7919 % customers) for at in range(200)]
        answers = [get(port, number) for number in asked]
        times = sorted(took for _, took in answers)
        right = all(answer["number"] == number for number, (answer, _) in zip(asked, answers))
        print(f"  200 requests at random        {sum(meter.sample()) / MIB:7.0f} MiB   half of them within "
              f"{times[100]:.1f} ms, all within {times[-1]:.1f} ms")
        server.stdin.close()
        status = server.wait(60)
    if not right or status:
        sys.exit(f"FAILED: {'status ' + str(status) if right else 'a wrong answer'}")
    if least * 2 > before:
        sys.exit("FAILED: the server has not become smaller")


def cost_part(build, plain, right):
    print("\nWhat the build takes with less memory, as a multiple of its time with enough")
    # The machine may have become faster or slower since the first part.
    again, _, _ = build.run()
    base = min(plain.wall, again.wall)
    shares, times = [100, 80, SHARE], []
    for share in shares:
        size = plain.peak * share // 100
        done, made, words = build.folded("--limit", size)
        if made != right:
            sys.exit(f"FAILED: with {share} % of its memory the build made something else\n{words}")
        times.append(done.wall / base)
    print("  memory  " + "".join(f"{share:7} %" for share in shares))
    print("  time    " + "".join(f"{times:9.1f}" for times in times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--memfold", default="target/release/memfold")
    parser.add_argument("--structs", type=int, default=100, help="what is built")
    parser.add_argument("--customers", type=int, default=150_000, help="what the server keeps")
    options = parser.parse_args()
    memfold = Path(options.memfold).resolve()
    with tempfile.TemporaryDirectory(prefix="memfold-demo-") as directory:
        build = Build(memfold, directory, options.structs)
        plain, right = build_part(build)
        server_part(memfold, options.customers)
        cost_part(build, plain, right)


if __name__ == "__main__":
    memory.take_charge()
    main()
