#!/usr/bin/env python3
"""Captures pages of many programs' heaps: capture.py DIRECTORY [NAME...]; or prints the Debian packages that have
these programs: capture.py --packages

Writes up to 1024 pages of each program in `programs.py` to DIRECTORY/NAME, evenly chosen from those of its
processes near their peak. Same-filled pages and duplicates are left out, since they never reach a codec.
Programs that are missing, or whose load fails, are reported and left out. Runs as root.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "programs"))
import pages  # noqa: E402
from programs import LOAD, PROGRAMS  # noqa: E402

MOST_PAGES = 1024
LEAST_PAGES = 256
SECONDS = 90  # of a load
QUIET = 6  # seconds without growth that end it
PR_SET_CHILD_SUBREAPER = 36


def descendants(root):
    """The processes below `root`."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    parents[int(entry)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    found, fresh = [], [root]
    while fresh:
        fresh = [pid for pid, parent in parents.items() if parent in fresh]
        found += fresh
    return found


def resident(pid):
    """Private bytes of a process that are resident."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * pages.PAGE
    except OSError:
        return 0


def distinct(found):
    return list({page: None for page in found if not pages.same_filled(page)})


def load(program, place):
    """The pages of the program's largest process near its peak."""
    caught, next_size, last = [], program.least << 20, time.monotonic()
    begin = last
    child = subprocess.Popen(["sh", "-c", program.script.rpartition(LOAD)[2]], cwd=place, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while time.monotonic() - begin < SECONDS and child.poll() is None:
            time.sleep(0.05)
            pid = max(descendants(os.getpid()), key=resident, default=0)
            size = resident(pid)
            if size >= next_size:
                os.kill(pid, signal.SIGSTOP)
                caught = distinct(pages.sample([pid], 4 if size > 64 << 20 else 1)) or caught
                os.kill(pid, signal.SIGCONT)
                next_size, last = size * 17 // 16, time.monotonic()
            if caught and time.monotonic() - last > QUIET:
                break
    finally:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.wait()
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
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
    step = max(1, len(caught) / MOST_PAGES)
    to.write_bytes(b"".join(caught[int(i * step)] for i in range(min(len(caught), MOST_PAGES))))
    return None


def main():
    if sys.argv[1:] == ["--packages"]:
        print(*sorted({package for program in PROGRAMS for package in program.packages.split()}))
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.environ.setdefault("MEMFOLD_TREE", str(Path(__file__).resolve().parents[2]))
    to, only = Path(sys.argv[1]), sys.argv[2:]
    to.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        if (only and program.name not in only) or (not only and (to / program.name).exists()):
            continue
        why = capture(program, to / program.name)
        print(f"{program.name}: {why or 'captured'}", flush=True)


main()
