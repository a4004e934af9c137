"""The peers that memfold is compared with: no limit, kernel zram swap, a swap file.

Every peer runs a command under a total, which limits private anonymous memory plus compressed pool at any
time. For zram the pool is `mem_used_total` of the device, so the cgroup gets less than the total. Runs with
different limits of the cgroup are repeated until

    max over time (anonymous memory of the cgroup + pool) = total +- 1 %

The kernel's own tables (16 bytes per page of the device, the swap map, page tables) are not counted, which
favours the kernel.

Swap is always switched off again, whatever happens to this process: an external guardian waits for the end of
a pipe that only this process holds open.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "programs"))
import memory  # noqa: E402

MIB = memory.MIB
ZRAM_CONTROL = Path("/sys/class/zram-control")
PAGE_CLUSTER = Path("/proc/sys/vm/page-cluster")
TOLERANCE = 0.01

# Waits for the end of its input, which comes however the benchmark ends, then undoes the setup. It kills
# processes first, since swap cannot be switched off while its contents fit nowhere else. $1 swap, $2 zram
# device number or -, $3 page-cluster, $4 "added" for a device of our own, $5 the bench's cgroups.
GUARDIAN = """
trap '' INT TERM HUP
cat >/dev/null
for group in $5; do
    [ -d "$group" ] || continue
    for try in 1 2 3 4 5 6 7 8 9 10; do
        kill -9 $(cat "$group/cgroup.procs") 2>/dev/null
        rmdir "$group" 2>/dev/null && break
        sleep 0.1
    done
done
for try in 1 2 3 4 5; do
    grep -q "^$1 " /proc/swaps || break
    swapoff "$1" && break
    sleep 0.5
done
echo "$3" > /proc/sys/vm/page-cluster
case $2 in
-) rm -f "$1" ;;
*) echo 1 > /sys/block/zram$2/reset; [ "$4" = added ] && echo "$2" > /sys/class/zram-control/hot_remove ;;
esac
exit 0
"""


class NotPossible(Exception):
    """This machine lacks something that the peer needs; the text says what."""


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


@contextlib.contextmanager
def guarded(swap, number, was_added):
    """Switches `swap` off after the block, whatever happens in it or to this process."""
    groups = memory.own_cgroup()[1] + f"/memfold-*-{os.getpid()}-*"
    guardian = subprocess.Popen(["sh", "-c", GUARDIAN, "guardian", swap, number, PAGE_CLUSTER.read_text().strip(),
                                 "added" if was_added else "found", groups], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guardian.stdin.close()
        guardian.wait()


def swap_on(path, page_cluster):
    subprocess.run(["mkswap", path], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", path], check=True)
    write(PAGE_CLUSTER, page_cluster)


def need_root():
    if os.geteuid():
        raise NotPossible("needs root")
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        raise NotPossible("swap is in use on this machine already")
    probe = memory.Cgroup.make("probe")
    if not probe:
        raise NotPossible("memory cgroups cannot be made here")
    probe.close()


class Unlimited:
    """The program without memfold and without a limit."""

    name = "no limit"

    @contextlib.contextmanager
    def ready(self):
        yield

    def run(self, command, total, directory, load=None, **options):
        return memory.run(command, directory, **options)


class Zram:
    """Kernel swap on a zram device under a memory cgroup."""

    def __init__(self, algorithm, page_cluster):
        self.algorithm, self.page_cluster = algorithm, page_cluster
        self.name = f"zram {algorithm} pc{page_cluster}"
        self.limits = {}  # (load, total) -> the cgroup limit that gives the total; loads of one name hold the same data

    @contextlib.contextmanager
    def ready(self):
        need_root()
        if not ZRAM_CONTROL.exists():
            raise NotPossible("the kernel has no zram")
        free = Path("/sys/block/zram0/disksize")
        was_added = not (free.exists() and free.read_text().strip() == "0")
        number = (ZRAM_CONTROL / "hot_add").read_text().strip() if was_added else "0"
        self.block, device = Path(f"/sys/block/zram{number}"), f"/dev/zram{number}"
        if self.algorithm not in (self.block / "comp_algorithm").read_text().replace("[", "").replace("]", "").split():
            raise NotPossible(f"this kernel's zram has no {self.algorithm}")
        with guarded(device, number, was_added):
            write(self.block / "comp_algorithm", self.algorithm)
            write(self.block / "disksize", 4 << 30)
            swap_on(device, self.page_cluster)
            yield

    def pool(self):
        """(bytes stored, bytes of memory that they take)."""
        fields = (self.block / "mm_stat").read_text().split()
        return int(fields[0]), int(fields[2])

    def run(self, command, total, directory, load=None, **options):
        """Runs until the totals agree. If they never do, the result is that of the completed run that exceeded the
        total least.
        """
        ended, limit = [], self.limits.get((load, total), total * 0.65)
        for attempt in range(6):
            seen = {"stored": 0, "taken": 0}

            def pool():
                stored, taken = self.pool()
                if taken > seen["taken"]:
                    seen.update(stored=stored, taken=taken)
                return taken

            limit = int(limit) // 4096 * 4096
            result = memory.run(command, directory, hard_limit=limit, extra=pool, **options)
            result.cgroup_limit = limit
            if abs(result.peak - total) <= total * TOLERANCE:
                self.limits[load, total] = limit
                return result
            if result.status[0] >= 0:
                ended.append(result)
            elif result.peak > total:
                break  # killed although it had more than the total: it does not fit
            gain = 1 - seen["taken"] / seen["stored"] if seen["stored"] else 1
            limit = max(8 * MIB, limit + (total - result.peak) / max(gain, 0.2))
        least = min((result for result in ended if result.peak > total), key=lambda result: result.peak, default=result)
        if least is not result:
            # Run it again, since its output has been overwritten.
            result = memory.run(command, directory, hard_limit=least.cgroup_limit, extra=lambda: self.pool()[1], **options)
            result.cgroup_limit = least.cgroup_limit
        result.unsettled = result.status[0] >= 0
        return result


class SwapFile:
    """Kernel swap on a plain file."""

    def __init__(self, place, page_cluster=3):
        self.path, self.page_cluster = str(Path(place) / "memfold-bench.swap"), page_cluster
        self.name = "swap file"

    @contextlib.contextmanager
    def ready(self):
        need_root()
        with guarded(self.path, "-", False):
            with open(self.path, "wb") as file:
                os.chmod(self.path, 0o600)
                block = bytes(4 * MIB)
                for _ in range(512):  # written, not reserved: swapon accepts no holes
                    file.write(block)
                os.fsync(file.fileno())
            swap_on(self.path, self.page_cluster)
            yield

    def run(self, command, total, directory, load=None, **options):
        return memory.run(command, directory, hard_limit=total, **options)


class Memfold:
    """`memfold run`, with additional options if given."""

    def __init__(self, binary, *options, name="memfold"):
        self.binary, self.options, self.name = str(Path(binary).resolve()), options, name

    @contextlib.contextmanager
    def ready(self):
        if not os.access(self.binary, os.X_OK):
            raise NotPossible(f"{self.binary} is not an executable file")
        yield

    def run(self, command, total, directory, load=None, **options):
        stats = Path(directory) / "stats.json"
        stats.unlink(missing_ok=True)
        prefix = [self.binary, "run", "--limit", str(total), "--stats", str(stats), *self.options, "--"]
        result = memory.run(prefix + command, directory, count_shared=True, **options)
        result.stats = json.loads(stats.read_text()) if stats.exists() else None
        return result


def memfolds(binary):
    """memfold with the default codecs, and with the earlier defaults."""
    return [Memfold(binary), Memfold(binary, "--codec", "lz4,zstd:1", name="memfold lz4,zstd:1")]
