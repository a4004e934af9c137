"""How much memory a tree of processes uses, seen from outside.

The figure is the one to which memfold's limit refers: private anonymous memory, each page counted once. A
separate memory cgroup gives it exactly (`rss` in version 1, `anon` in version 2) and cheaply; where none can
be made, it is the sum of `Pss_Anon` over the tree. `shmem` is reported separately: under memfold it is the
memory that memfold shares between its processes, which also counts.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

MIB = 1 << 20
PR_SET_CHILD_SUBREAPER = 36


def take_charge():
    """Makes this process adopt orphans of the trees started here, and turns signals that end it into
    exceptions.

    So the trees are always seen and ended, and their files removed.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))


def read_text(path):
    with open(path) as file:
        return file.read()


def descendants(pid):
    """`pid` and all of its live descendants."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                with contextlib.suppress(OSError):
                    queue += map(int, read_text(f"/proc/{one}/task/{task}/children").split())
    return found


def own_cgroup():
    """(version, directory) of the memory cgroup that this process is in, or None."""
    v1, v2 = "/sys/fs/cgroup/memory", None
    for line in read_text("/proc/mounts").splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup" and "memory" in options.split(","):
            v1 = where
        if kind == "cgroup2":
            v2 = where
    for line in read_text("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            here = v1 + path
            # In a container the path may be the host's, while the mount is the container's.
            return 1, here if os.path.isdir(here) else v1
        if number == "0" and v2 and "memory" in read_optional(v2 + "/cgroup.controllers").split():
            here = v2 + path.rstrip("/")
            return 2, here if os.path.isdir(here) else v2
    return None


def read_optional(path):
    try:
        return read_text(path)
    except OSError:
        return ""


class Cgroup:
    """A memory cgroup below this process's own, for one tree."""

    def __init__(self, version, path):
        self.version, self.path = version, path
        self.stat = os.open(path + "/memory.stat", os.O_RDONLY)

    @staticmethod
    def make(name):
        """A new cgroup, or None if it cannot be made."""
        try:
            version, parent = own_cgroup()
            if version == 2 and "memory" not in read_optional(parent + "/cgroup.subtree_control").split():
                with open(parent + "/cgroup.subtree_control", "w") as file:
                    file.write("+memory")
            path = f"{parent}/memfold-{name}-{os.getpid()}-{time.monotonic_ns()}"
            os.mkdir(path)
            return Cgroup(version, path)
        except (OSError, TypeError):
            return None

    def entry(self, command):
        """`command` changed so that it starts inside the cgroup."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', self.path + "/cgroup.procs", *command]

    def counters(self):
        text = os.pread(self.stat, 8192, 0).decode()
        return {key: int(value) for key, value in (line.split() for line in text.splitlines())}

    def sample(self):
        """(private anonymous bytes, shared memory bytes)."""
        counters = self.counters()
        return counters["rss" if self.version == 1 else "anon"], counters["shmem"]

    def pids(self):
        return [int(pid) for pid in read_text(self.path + "/cgroup.procs").split()]

    def set_limit(self, size, swap=True):
        """A hard limit; the kernel reclaims or kills when it is exceeded. Without `swap` it does not swap."""
        name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
        with open(f"{self.path}/{name}", "w") as file:
            file.write(str(size))
        if not swap:
            name, size = ("memory.memsw.limit_in_bytes", size) if self.version == 1 else ("memory.swap.max", 0)
            # A kernel that cannot swap has no such file.
            with contextlib.suppress(OSError), open(f"{self.path}/{name}", "r+") as file:
                file.write(str(size))

    def close(self):
        os.close(self.stat)
        for _ in range(200):
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.01)


class Tree:
    """The same figures without a cgroup: from /proc of every process of the tree."""

    def __init__(self):
        self.root = None

    def entry(self, command):
        return command

    def pids(self):
        # Daemons of the tree have become children of this process. So is the client of a server, but it uses
        # little memory.
        return descendants(self.root) if self.root else []

    def sample(self):
        anon = shmem = 0
        for pid in self.pids():
            for line in read_optional(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith("Pss_Anon:"):
                    anon += int(line.split()[1]) * 1024
                elif line.startswith("Pss_Shmem:"):
                    shmem += int(line.split()[1]) * 1024
        return anon, shmem

    def close(self):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Sampler(threading.Thread):
    """Samples a tree every `period` seconds until `stop`."""

    def __init__(self, meter, period, count_shared, on_sample=None, extra=None):
        super().__init__(daemon=True)
        self.meter, self.period, self.count_shared = meter, period, count_shared
        self.on_sample, self.extra = on_sample, extra
        self.started = time.monotonic()
        self.samples = []  # (seconds since the start, bytes)
        self.done = threading.Event()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # only root may raise its priority above that of the tree
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        while not self.done.wait(self.period):
            try:
                anon, shmem = self.meter.sample()
            except OSError:
                continue
            size = anon + (shmem if self.count_shared else 0) + (self.extra() if self.extra else 0)
            self.samples.append((time.monotonic() - self.started, size))
            if self.on_sample:
                self.on_sample(size)

    def stop(self):
        self.done.set()
        self.join()

    def peak(self):
        return max((size for _, size in self.samples), default=0)


class Run:
    """The result of running a command: status, times, memory, and the location of its output."""

    def __init__(self, status, wall, cpu, sampler, timed_out):
        self.status, self.wall, self.cpu, self.timed_out = status, wall, cpu, timed_out
        self.samples, self.peak = sampler.samples, sampler.peak()


def run(command, directory, *, stdout, stderr, client=None, env=None, period=0.005, count_shared=False,
        on_sample=None, extra=None, timeout=600, hard_limit=None, swap=True):
    """Runs `command` in `directory` and samples its tree's memory.

    With `client`, that command runs outside of the tree while `command` serves it; the kept output is the
    client's, and the client ends the server. `extra` returns bytes that also count but are outside of the
    tree. A hard limit needs a cgroup: `Cgroup.make`.
    """
    with contextlib.ExitStack() as ending, open(stdout, "wb") as out, open(stderr, "wb") as err:
        meter = Cgroup.make("tree") or Tree()
        ending.callback(meter.close)
        if hard_limit:
            meter.set_limit(hard_limit, swap)
        started = time.monotonic()
        child = subprocess.Popen(meter.entry(command), cwd=directory, env=env, stdin=subprocess.DEVNULL,
                                 stdout=err if client else out, stderr=err, start_new_session=True)
        if isinstance(meter, Tree):
            meter.root = child.pid
        sampler = Sampler(meter, period, count_shared, (lambda size: on_sample(meter, size)) if on_sample else None, extra)
        ending.callback(sampler.stop)
        timed_out = threading.Event()

        def give_up():
            timed_out.set()
            for pid in [child.pid, *meter.pids()]:
                kill(pid)

        watchdog = threading.Timer(timeout, give_up)
        watchdog.daemon = True
        watchdog.start()
        ending.callback(watchdog.cancel)
        client_status = 0
        if client:
            client_status = subprocess.run(client, cwd=directory, env=env, stdin=subprocess.DEVNULL,
                                           stdout=out, stderr=err, timeout=timeout).returncode
            if client_status:
                kill(child.pid, signal.SIGTERM)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for it again
        wall = time.monotonic() - started
        sampler.stop()
        return Run((child.returncode, client_status), wall, usage.ru_utime + usage.ru_stime, sampler, timed_out.is_set())


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def excess(samples, limit):
    """(bytes, samples) by which a limit was exceeded beyond its tolerance of 5 % + 8 MiB."""
    allowed = limit * 1.05 + 8 * MIB
    over = [size - allowed for _, size in samples if size > allowed]
    return int(max(over, default=0)), len(over)
