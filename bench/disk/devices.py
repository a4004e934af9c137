"""The measured devices: how each is started, filled, trimmed and ended, and how its memory is measured."""

import contextlib
import fcntl
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

BLKDISCARD = 0x1277
# After this many seconds, two passes of the background thread have found nothing to do.
QUIET = 11


class Missing(Exception):
    """A peer that is not available here, and why."""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing(f"no {program}")


def until(there, what, seconds=10):
    begun = time.monotonic()
    while not there():
        if time.monotonic() - begun > seconds:
            raise RuntimeError(f"not after {seconds} s: {what}")
        time.sleep(0.05)


def status_bytes(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"no {key} of process {pid}")


class Peer:
    """One device. `fio` has the options that describe it to fio."""

    name = fio = None

    def __init__(self, options, size):
        self.options, self.size, self.stack = options, size, contextlib.ExitStack()
        self.place = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="memfold-bench-")))

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def serve(self, command, ready, **more):
        log = self.stack.enter_context(open(self.place / "log", "w+", encoding="utf-8"))
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, **more)

        def stop():
            process.terminate()
            process.wait(20)

        self.stack.callback(stop)

        def there():
            if process.poll() is not None:
                log.seek(0)
                raise RuntimeError(f"{command[0]} ended: {log.read().strip()}")
            return ready()

        until(there, "the device")
        self.process = process

    def settle(self):
        """Waits for the end of background work."""

    def memory(self):
        """(current bytes, peak so far)"""
        return status_bytes(self.process.pid, "VmRSS"), status_bytes(self.process.pid, "VmHWM")


class Nbd(Peer):
    settings = ()

    def begin(self):
        need("nbdkit", "nbdcopy", "qemu-io", "fio")
        socket = self.place / "socket"
        self.uri = f"nbd+unix:///?socket={socket}"
        self.fio = ["--ioengine=nbd", f"--uri={self.uri}"]
        self.serve(["nbdkit", "-f", "-U", socket, *self.settings, f"size={self.size}"], socket.exists)

    def fill(self, data):
        run("nbdcopy", data, self.uri)

    def trim(self):
        run("qemu-io", "-f", "raw", "-d", "unmap", "-c", f"discard 0 {self.size}", self.uri)


class Zstd(Nbd):
    name, settings = "nbdkit zstd", ("memory", "allocator=zstd")


class Sparse(Nbd):
    name, settings = "nbdkit sparse", ("memory", "allocator=sparse")


class Memfold:
    """The common part of both kinds of memfold devices."""

    def command(self, *door):
        self.title = f"bench-{os.getpid()}"
        return [self.options.memfold, "disk", "--size", self.size, "--limit", self.size * 2, "--name", self.title, *door]

    def counters(self):
        return json.loads(run(self.options.memfold, "disk", "status", "--json", self.title))

    def settle(self):
        last, since = None, time.monotonic()
        while time.monotonic() - since < QUIET:
            time.sleep(0.5)
            counters = self.counters()
            counters = counters[0] if isinstance(counters, list) else counters
            if (counters["merges"], counters["memory_bytes"]) != last:
                last, since = (counters["merges"], counters["memory_bytes"]), time.monotonic()


class MemfoldNbd(Memfold, Nbd):
    name = "memfold, NBD"

    def begin(self):
        need("nbdkit", "nbdcopy", "qemu-io", "fio")
        socket = self.place / "socket"
        self.uri = f"nbd+unix:///?socket={socket}"
        self.fio = ["--ioengine=nbd", f"--uri={self.uri}"]
        environment = {**os.environ, "MEMFOLD_NBDKIT_PLUGIN": os.path.abspath(self.options.plugin)}
        self.serve(self.command("--socket", socket), socket.exists, env=environment)


class Block(Peer):
    """A block device under /dev."""

    def use(self, device):
        self.device = device
        self.fio = ["--ioengine=libaio", "--direct=1", f"--filename={device}"]

    def fill(self, data):
        run("dd", f"if={data}", f"of={self.device}", "bs=1M", "oflag=direct", "conv=fsync", "status=none")

    def discard(self, offset, length):
        if not hasattr(self, "file"):
            self.file = os.open(self.device, os.O_RDWR | os.O_DIRECT)
            self.stack.callback(os.close, self.file)
        fcntl.ioctl(self.file, BLKDISCARD, struct.pack("QQ", offset, length))

    def trim(self):
        self.discard(0, self.size)


class MemfoldFuse(Memfold, Block):
    name = "memfold, FUSE"

    def begin(self):
        need("losetup", "fio")
        if os.geteuid():
            raise Missing("root, for a loop device")
        directory = self.place / "mount"
        directory.mkdir()
        file = directory / "disk"
        self.serve(self.command("--mount", directory), file.exists)
        loop = run("losetup", "--find", "--show", "--direct-io=on", file).strip()
        self.stack.callback(run, "losetup", "-d", loop)
        self.use(loop)


class Zram(Block):
    name = "kernel zram lzo-rle"

    def begin(self):
        need("fio")
        control = Path("/sys/class/zram-control")
        if os.geteuid() or not control.exists():
            raise Missing("root and a kernel with zram")
        number = int((control / "hot_add").read_text())
        self.stack.callback(lambda: (control / "hot_remove").write_text(str(number)))
        self.sys = Path(f"/sys/block/zram{number}")
        if "lzo-rle" not in (self.sys / "comp_algorithm").read_text():
            raise Missing("lzo-rle")
        (self.sys / "comp_algorithm").write_text("lzo-rle")
        (self.sys / "disksize").write_text(str(self.size))
        self.use(f"/dev/zram{number}")
        until(Path(self.device).exists, self.device)
        self.stack.callback(lambda: (self.sys / "reset").write_text("1"))

    def memory(self):
        words = [int(word) for word in (self.sys / "mm_stat").read_text().split()]
        return words[2], words[4]


class Tmpfs(Peer):
    name = "tmpfs, plain"

    def begin(self):
        need("fio")
        if os.geteuid():
            raise Missing("root, to mount it")
        self.directory = self.place / "tmpfs"
        self.directory.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={self.size * 2}", "tmpfs", self.directory)
        self.stack.callback(run, "umount", self.directory)
        self.path = self.directory / "file"
        self.path.touch()
        self.fio = ["--ioengine=libaio", f"--filename={self.path}"]

    def fill(self, data):
        shutil.copyfile(data, self.path)

    def trim(self):
        os.truncate(self.path, 0)

    def memory(self):
        used = os.stat(self.path).st_blocks * 512
        return used, used


ALL = (MemfoldNbd, Zstd, Sparse, MemfoldFuse, Zram, Tmpfs)
