#!/usr/bin/env python3
"""The compressed RAM disk with real clients: file systems, databases, swap, nbdcopy, qemu, fio.

run.py --memfold FILE --plugin FILE [--soak] [NAME...]

Each check makes its own device, lets real programs use it, and compares every byte with the original. If the
machine lacks something (root, loop devices, FUSE, a program), the check is reported and skipped;
--missing-packages names the Debian packages.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from checks.clients import fio, killed, nbd
from checks.commands import commands, filters, status
from checks.databases import postgres, sqlite
from checks.files import mapped, mounted
from checks.filesystems import btrfs, ext4, xfs
from checks.limits import backing, limit
from checks.place import Place
from checks.swap import swap
from checks.tools import PROGRAMS, Missing, Wrong, find

QUICK = [commands, filters, mounted, mapped, status, nbd, ext4, xfs, sqlite, swap, fio, killed, limit, backing]
CHECKS = {check.__name__: check for check in [*QUICK, btrfs, postgres]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memfold", type=Path)
    parser.add_argument("--plugin", type=Path)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--missing-packages", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHECKS))
    options = parser.parse_args()
    if options.missing_packages:
        packages = {package for program, package in PROGRAMS.items() if not find(program)}
        if options.soak and not list(Path("/usr/lib/postgresql").glob("*/bin")):
            packages.add("postgresql")
        print(*sorted(packages))
        return 0
    options.memfold, options.plugin = options.memfold.absolute(), options.plugin.absolute()
    names = options.names or ([*CHECKS] if options.soak else [check.__name__ for check in QUICK])
    failed, left_out = [], []
    for name in names:
        begun = time.monotonic()
        place = Place(options)
        try:
            with place.stack:
                said = CHECKS[name](place)
            print(f"{name}: ok, {time.monotonic() - begun:.1f} s{'; ' if said else ''}{said}", flush=True)
        except Missing as why:
            left_out.append(name)
            print(f"{name}: left out, for lack of {why}", flush=True)
        except (Wrong, subprocess.SubprocessError, OSError) as why:
            failed.append(name)
            print(f"{name}: FAILED: {why}", flush=True)
            for log, process, text in place.logs:
                print(f"  {log}: {process.poll()}: {text}", flush=True)
    print(f"disk: {len(names) - len(failed) - len(left_out)} passed, {len(failed)} failed, {len(left_out)} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
