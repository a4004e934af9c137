"""Common functions of the checks: running programs, waiting, bytes to write."""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

MIB = 1 << 20
PROGRAMS = {
    "nbdkit": "nbdkit", "nbdcopy": "libnbd-bin", "qemu-img": "qemu-utils", "fio": "fio", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs",
    "sqlite3": "sqlite3", "losetup": "mount", "mkswap": "util-linux", "cc": "gcc",
}


class Missing(Exception):
    """This machine lacks something that the check needs."""


class Wrong(Exception):
    """A check that failed."""


def need(*programs):
    for program in programs:
        if not find(program):
            raise Missing(f"{program} (Debian: {PROGRAMS.get(program, program)})")


def need_root(why):
    if os.geteuid():
        raise Missing(f"root, {why}")


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def run(*words, **options):
    words = [*map(str, (find(words[0]) or words[0], *words[1:]))]
    options.setdefault("capture_output", True)
    done = subprocess.run(words, check=False, text=options.pop("text", True), **options)
    if done.returncode:
        raise Wrong(f"{' '.join(words)}: {done.returncode}: {(done.stderr or done.stdout or '').strip()[-600:]}")
    return done.stdout


def attempt(*words):
    """Runs a command that may fail; returns its exit status and its output."""
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def until(condition, what, seconds=20.0):
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Wrong(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
    return value


def data(mib, seed=1):
    """Bytes as they occur on disks: programs of this machine, and the source of its Python libraries."""
    parts, size = [], 0
    paths = sorted(Path(sys.executable).resolve().parent.glob("*")) + sorted(Path(os.__file__).parent.rglob("*.py"))
    paths += sorted(Path("/usr/bin").glob("*"))
    random.Random(seed).shuffle(paths)
    for path in paths:
        if size >= mib * MIB:
            break
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                part = path.read_bytes()[: 4 * MIB]
                parts.append(part)
                size += len(part)
    whole = b"".join(parts)
    return (whole * (mib * MIB // max(len(whole), 1) + 1))[: mib * MIB]


def noise_of(mib, seed):
    """Bytes that do not compress."""
    source = random.Random(seed)
    return b"".join(source.randbytes(MIB) for _ in range(mib))


def forget():
    """Makes the kernel drop its cache, so that data are read from the device again."""
    with contextlib.suppress(OSError):
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
