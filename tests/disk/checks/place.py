"""The files and devices of a check."""

import contextlib
import errno
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from .tools import Missing, Wrong, attempt, need, run, until


class Place:
    """The files of a check, and what it must clean up at the end."""

    def __init__(self, options):
        self.options = options
        self.stack = contextlib.ExitStack()
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="memfold-disk-")))
        self.devices = 0
        # The devices' messages and exit statuses.
        self.logs = []

    def name(self):
        self.devices += 1
        return f"test-{os.getpid()}-{self.devices}"

    def start(self, words, ready, name):
        log = open(self.path / f"{name}.log", "w+", encoding="utf-8")
        self.stack.callback(log.close)
        environment = {**os.environ, "MEMFOLD_NBDKIT_PLUGIN": str(self.options.plugin)}
        process = subprocess.Popen([self.options.memfold, "disk", "--name", name, *map(str, words)], stderr=log, stdout=log, env=environment)
        process.log = Path(log.name)

        def stop():
            log.seek(0)
            self.logs.append((name, process, log.read()[-2000:].strip()))
            # A device that is still in use does not end. The kernel may detach a loop device late.
            for _ in range(6):
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                    break
            else:
                process.kill()
                process.wait()

        self.stack.callback(stop)

        def there():
            if process.poll() is not None:
                log.seek(0)
                text = log.read().strip()
                if "no /dev/fuse" in text or "mounting needs root" in text:
                    raise Missing(text)
                raise Wrong(f"the device ended at once: {text}")
            return ready()

        until(there, "the device is there")
        return process

    def nbd(self, *settings):
        """A device for NBD clients: its URI and process."""
        need("nbdkit")
        name = self.name()
        socket = self.path / f"{name}.sock"
        process = self.start(["--socket", socket, *settings], socket.exists, name)
        process.device = name
        return f"nbd+unix:///?socket={socket}", process

    def file(self, *settings):
        """A device as a file: its path and process."""
        name = self.name()
        directory = self.path / name
        directory.mkdir()
        file = directory / "disk"
        process = self.start(["--mount", directory, *settings], file.exists, name)
        process.device, process.connection = name, os.minor(os.stat(directory).st_dev)
        return file, process

    def abort(self, device):
        """Aborts a FUSE connection, so that processes that wait for it in the kernel get an error."""
        connections = Path("/sys/fs/fuse/connections")
        if not list(connections.iterdir()):
            run("mount", "-t", "fusectl", "none", connections)
        (connections / str(device.connection) / "abort").write_text("1")

    def loop(self, file):
        need("losetup")
        try:
            device = run("losetup", "--find", "--show", "--direct-io=on", file).strip()
        except Wrong as why:
            raise Missing(f"a loop device: {why}") from why
        self.stack.callback(lambda: run("losetup", "-d", device))
        return device

    def mount(self, device, options="discard"):
        place = self.path / f"mounted-{Path(device).name}-{time.monotonic_ns()}"
        place.mkdir()
        run("mount", "-o", options, device, place)

        def unmount():
            if os.path.ismount(place):
                run("umount", place)

        self.stack.callback(unmount)
        return place

    def unmount(self, place, device):
        """Unmounts a file system and waits until it is no longer in use: a mount namespace that another test
        began meanwhile has a copy of each mount, and until it ends, the journal may hold changes."""
        run("umount", place)

        def free():
            try:
                os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
            except OSError as why:
                if why.errno == errno.EBUSY:
                    return False
                raise
            return True

        until(free, f"{device} is no longer mounted anywhere", 120)

    def status(self, process):
        def known():
            """The status socket appears shortly after the clients' socket."""
            done = attempt(self.options.memfold, "disk", "status", "--json", process.device)
            return not done.returncode and done.stdout

        return json.loads(until(known, f"the status of {process.device}"))[0]
