#!/usr/bin/env python3
"""Captures pages of many programs' heaps: capture.py DIRECTORY [NAME...]; or prints the Debian packages that have
these programs: capture.py --packages

Writes up to 1024 pages of each program in `programs.py` to DIRECTORY/NAME, evenly chosen from those of its
processes near their peak. Same-filled pages and duplicates are left out, since they never reach a codec.
Programs that are missing, or whose load fails, are reported and left out. Runs as root.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "programs"))
import memory  # noqa: E402
import pages  # noqa: E402
from programs import LOAD, PROGRAMS  # noqa: E402

MOST_PAGES = 1024
LEAST_PAGES = 256
SECONDS = 90  # of a load
QUIET = 6  # seconds without growth that end it


def resident(pid):
    """Private bytes of a process that are resident."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * pages.PAGE
    except OSError:
        return 0


def children():
    """The processes of the load."""
    return memory.descendants(os.getpid())[1:]


def load(program, place):
    """The pages of the program's largest process near its peak."""
    caught, next_size, last = [], program.least << 20, time.monotonic()
    begin = last
    child = subprocess.Popen(["sh", "-c", program.script.rpartition(LOAD)[2]], cwd=place, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while time.monotonic() - begin < SECONDS and child.poll() is None:
            time.sleep(0.05)
            pid = max(children(), key=resident, default=0)
            size = resident(pid)
            if size >= next_size:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    caught = pages.distinct(pages.sample([pid], 4 if size > 64 << 20 else 1)) or caught
                    os.kill(pid, signal.SIGCONT)
                next_size, last = size * 17 // 16, time.monotonic()
            if caught and time.monotonic() - last > QUIET:
                break
    finally:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
    return caught


def capture(program, to):
    """Why the program was not captured; nothing if it was."""
    with tempfile.TemporaryDirectory(prefix="memfold-tables-") as place:
        os.chmod(place, 0o755)
        for name, content in program.files:
            (Path(place) / name).write_text(content)
        prepare = program.script.rpartition(LOAD)[0]
        if subprocess.run(["sh", "-c", prepare], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return "its preparation fails"
        caught = load(program, place)
    if len(caught) < LEAST_PAGES:
        return f"only {len(caught)} pages"
    to.write_bytes(b"".join(pages.some(caught, MOST_PAGES)))
    return None


def main():
    if sys.argv[1:] == ["--packages"]:
        print(*sorted({package for program in PROGRAMS for package in program.packages.split()}))
        return
    memory.take_charge()
    os.environ.setdefault("MEMFOLD_TREE", str(Path(__file__).resolve().parents[2]))
    to, only = Path(sys.argv[1]), sys.argv[2:]
    to.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        if (only and program.name not in only) or (not only and (to / program.name).exists()):
            continue
        why = capture(program, to / program.name)
        print(f"{program.name}: {why or 'captured'}", flush=True)


main()
