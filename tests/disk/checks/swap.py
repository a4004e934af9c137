"""Swap on a device, for a program that needs more than its cgroup has."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

from .tools import MIB, Missing, Wrong, need, need_root, run, until


def cgroup(place, mib):
    """A memory cgroup with a limit (version 1), or None."""
    base = Path("/sys/fs/cgroup/memory")
    if not (base / "memory.limit_in_bytes").exists():
        raise Missing("memory cgroups of version 1")
    group = base / f"memfold-disk-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(mib * MIB))
    except OSError as why:
        raise Missing(f"memory cgroups: {why}") from why

    def remove():
        for task in (group / "tasks").read_text().split():
            with contextlib.suppress(OSError):
                (base / "tasks").write_text(task)
        until(lambda: not (group / "tasks").read_text().strip(), "the cgroup is empty")
        group.rmdir()

    place.stack.callback(remove)
    return group


def eat(place, device, group, mib, rounds, seconds):
    eater = place.path / "memeater"
    run("cc", "-O2", "-o", eater, Path(__file__).parent.with_name("memeater.c"))

    def join():
        (group / "tasks").write_text(str(os.getpid()))

    process = subprocess.Popen([eater, str(mib), str(rounds)], preexec_fn=join, stdout=subprocess.PIPE, text=True)
    try:
        said = process.communicate(timeout=seconds)[0].strip()
    except subprocess.TimeoutExpired:
        place.abort(device)
        process.kill()
        process.wait()
        raise Wrong("memeater and the device wait for each other") from None
    if process.returncode:
        raise Wrong(f"memeater: {process.returncode} {said}")
    return said


def swap_on(place, *settings):
    need("mkswap", "swapon", "losetup", "cc")
    need_root("for swapon")
    file, device = place.file("--size", "1G", "--swap", *settings)
    loop = place.loop(file)
    run("mkswap", loop)
    try:
        run("swapon", "-d", "-p", "32767", loop)
    except Wrong as why:
        raise Missing(f"swapon: {why}") from why
    place.stack.callback(lambda: run("swapoff", loop))
    return device


def swap(place):
    """CRAMES's memeater (6.2) in a fifth of the memory that it uses."""
    device = swap_on(place, "--limit", "256M")
    said = eat(place, device, cgroup(place, 48), 240, 1, 300)
    status = place.status(device)
    if status["pages_written"] < 20_000 or status["pages_read"] < 20_000:
        raise Wrong(f"it was not swapped: {status}")
    until(lambda: place.status(device)["logical_bytes"] < 10 * MIB, "what nobody has any more is discarded")
    return f"{said}; {status['peak_memory_bytes'] / MIB:.0f} MiB at most for the device"
