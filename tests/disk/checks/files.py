"""The device as a file: copied to, mapped, in use at the end, killed."""

import contextlib
import errno
import mmap
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

from .tools import MIB, Missing, Wrong, attempt, data, noise_of, run, until


def mounted(place):
    """The file: copied to, in use when the device is told to end, mounted over, and after a kill."""
    file, device = place.file("--size", "64M")
    content = data(32)
    (place.path / "source").write_bytes(content)
    run("cp", place.path / "source", file)
    if file.read_bytes() != content + bytes(32 * MIB):
        raise Wrong("the file holds something else than what was copied")
    done = attempt(place.options.memfold, "disk", "--size", "1G", "--mount", file.parent)
    if done.returncode != 125 or "already" not in done.stderr:
        raise Wrong(f"a second device at the same place: {done.returncode}: {done.stderr!r}")
    # Started without standard descriptors, whose numbers no file that it opens may take.
    bare = place.path / "bare"
    bare.mkdir()
    alone = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', place.options.memfold, "disk", "--size", "64M", "--mount", bare])
    place.stack.callback(alone.kill)
    until(lambda: (bare / "disk").exists() or alone.poll() is not None, "the device without standard descriptors is there")
    run("cp", place.path / "source", bare / "disk")
    if (bare / "disk").read_bytes() != content + bytes(32 * MIB):
        raise Wrong("the file of a device without standard descriptors holds something else than what was copied")
    alone.terminate()
    if alone.wait(10) != 0:
        raise Wrong(f"a device without standard descriptors ends with {alone.returncode}")
    with open(file, "rb"):
        for _ in range(2):
            device.terminate()
            time.sleep(0.3)
            if device.poll() is not None:
                raise Wrong("a device that was in use has ended")

        def says():
            said = device.log.read_text()
            return "in use" in said or "busy" in said

        until(says, "the device says that it is in use")
        if device.poll() is not None:
            raise Wrong("a device that was in use has ended")
    device.terminate()
    if device.wait(10) or os.path.ismount(file.parent):
        raise Wrong("it did not end when nobody used it any more")
    if "'kill " not in device.log.read_text():
        raise Wrong(f"it does not say that it has to be ended once more: {device.log.read_text()}")
    # It reports the limit as its size.
    file, device = place.file("--size", "1G", "--limit", "64M")
    before = os.statvfs(file.parent)
    with open(file, "r+b") as disk:
        disk.write(noise_of(24, 3))
    after = os.statvfs(file.parent)
    if before.f_blocks * before.f_frsize != 64 * MIB or not 22 * MIB < (before.f_bfree - after.f_bfree) * before.f_frsize < 30 * MIB:
        raise Wrong(f"statfs does not know the limit: {before}, {after}")
    # What is free can be written, even on a small device.
    file, device = place.file("--size", "256M", "--limit", "32M")
    free = os.statvfs(file.parent).f_bavail * 4096
    written = 0
    with open(file, "r+b", buffering=0) as disk:
        try:
            while written < 200 * MIB:
                written += disk.write(noise_of(1, written))
                os.fsync(disk)
        except OSError:
            pass
    if not free * 3 // 4 < written < free * 5 // 4 or os.statvfs(file.parent).f_bavail * 4096 > free // 8:
        raise Wrong(f"{written} bytes were written of {free} that were free, {os.statvfs(file.parent)}")
    # A path may have any bytes.
    odd = Path(os.fsdecode(bytes(place.path) + b"/o\xffd d"))
    (odd / "on").mkdir(parents=True)
    name = place.name()
    words = ["--mount", odd / "on", "--size", "64M", "--limit", "32M", "--backing", odd / "backing"]
    device = place.start(words, (odd / "on/disk").exists, name)
    device.device = name
    status = place.status(device)
    if status["address_hex"] != bytes(odd / "on/disk").hex() or "o\\xffd d" not in run(place.options.memfold, "disk", "status", name):
        raise Wrong(f"a path that is not text: {status}")
    run("cp", place.path / "source", odd / "on/disk")
    twice = attempt(place.options.memfold, "disk", "--size", "1G", "--mount", odd / "on")
    if twice.returncode != 125 or "already" not in twice.stderr:
        raise Wrong(f"a second device where the path is not text: {twice.returncode}: {twice.stderr!r}")
    device.terminate()
    if device.wait(10) or os.path.ismount(odd / "on"):
        raise Wrong("a device whose path is not text does not end")
    second, device = place.file("--size", "64M")
    device.kill()
    device.wait()
    done = attempt(place.options.memfold, "disk", "--size", "1G", "--mount", second.parent)
    run("umount", second.parent)
    if done.returncode != 125 or "umount" not in done.stderr:
        raise Wrong(f"where a device was killed: {done.returncode}: {done.stderr!r}")
    return ""


def kernel():
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", os.uname().release)
    return tuple(int(number or 0) for number in numbers.groups())


def mapped(place):
    """The file mapped to memory: mappings, reads and writes see the same bytes, and a refused write is
    reported.
    """
    if kernel() < (6, 6):
        raise Missing("shared mappings of files past the page cache (Linux 6.6)")
    file, device = place.file("--size", "64M")
    content = data(16, 3)

    @contextlib.contextmanager
    def mapping(path, size=64 * MIB):
        with open(path, "r+b", buffering=0) as opened, mmap.mmap(opened.fileno(), size) as memory:
            yield opened, memory

    with mapping(file) as (opened, memory), open(file, "r+b", buffering=0) as other:
        # Without msync.
        memory[MIB: 17 * MIB] = content
        if os.pread(other.fileno(), len(content), MIB) != content:
            raise Wrong("who reads does not see what was written to a mapping")
        memory.flush()
        if place.status(device)["logical_bytes"] < 15 * MIB:
            raise Wrong(f"after msync the device does not have it: {place.status(device)}")
        os.pwrite(other.fileno(), b"over pages" * 1000, 2 * MIB - 777)
        if memory[2 * MIB - 777: 2 * MIB + 9223] != b"over pages" * 1000 or memory[2 * MIB - 778] != content[MIB - 778]:
            raise Wrong("a mapping does not see what was written")
        run("fallocate", "--punch-hole", "--offset", 4 * MIB, "--length", 3 * MIB + 100, file)
        if memory[4 * MIB: 7 * MIB + 101] != bytes(3 * MIB + 100) + content[6 * MIB + 100: 6 * MIB + 101]:
            raise Wrong("a mapping does not see what was trimmed")
        try:
            run("fallocate", "--offset", 0, "--length", MIB, file)
            raise Wrong("room is promised that may not be there")
        except Wrong as refused:
            if "not supported" not in str(refused):
                raise
        wanted = memory[:]
        with open(file, "rb") as private, mmap.mmap(private.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as own:
            own[MIB] = wanted[MIB] ^ 1
            if own[MIB + 1: 17 * MIB] != wanted[MIB + 1: 17 * MIB] or memory[MIB] != wanted[MIB]:
                raise Wrong("a private mapping has something else, or is not private")
        # A loop device: one half of each page is written, the other is changed through a mapping.
        with open(place.loop(file), "r+b", buffering=0) as loop:
            for turn in range(200):
                os.pwrite(other.fileno(), struct.pack("<Q", turn) * 256, 20 * MIB + turn % 4 * 4096)
                memory[20 * MIB + turn % 4 * 4096 + 2048: 20 * MIB + turn % 4 * 4096 + 4096] = struct.pack("<Q", turn ^ 1) * 256
            wanted = memory[:]
            os.posix_fadvise(loop.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if loop.read(64 * MIB) != wanted or file.read_bytes() != wanted:
                raise Wrong("a loop device on the file has something else")
        if memory[20 * MIB: 20 * MIB + 4096] != struct.pack("<Q", 196) * 256 + struct.pack("<Q", 197) * 256:
            raise Wrong("a page that both have written")
    with open(file, "rb") as opened:
        if opened.read() != wanted:
            raise Wrong("without the mapping it is something else")
    races = race(file, mapping)
    full, device = place.file("--size", "64M", "--limit", "16M", "--codec", "lz4,none")
    with mapping(full) as (opened, memory):
        memory[:MIB] = noise_of(1, 2)
        memory.flush()
        memory[8 * MIB: 40 * MIB] = noise_of(32, 3)
        try:
            memory.flush()
            raise Wrong("32 MiB of noise are in 16 MiB, says msync")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EIO):
                raise
    if not place.status(device)["refused_writes"]:
        raise Wrong("nothing says that there was no room")
    with open(full, "rb") as opened:
        if opened.read(MIB) != noise_of(1, 2):
            raise Wrong("what was there before the device was full is not there any more")
    return races


def race(file, mapping):
    """Two processes read a page through mappings as fast as they can, while it is written repeatedly."""
    # Since 6.19, and in updates of older versions, the kernel drops pages that were read during the write.
    if kernel() < (6, 18, 10):
        return "no races before Linux 6.18.10"
    script = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 4096)\nprint(flush=True)\nwhile True: m[0]"
    readers = [subprocess.Popen([sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for reader in readers:
            if not reader.stdout.readline():
                raise Wrong("a program that maps the file has ended")
        end, turn = time.monotonic() + 3, 0
        with mapping(file, 4096) as (opened, memory), open(file, "r+b", buffering=0) as other:
            while time.monotonic() < end:
                turn += 1
                os.pwrite(other.fileno(), struct.pack("<Q", turn) * 512, 0)
                if memory[:] != struct.pack("<Q", turn) * 512:
                    raise Wrong(f"after {turn} writes a mapping had something older")
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    return f"{turn} races"
