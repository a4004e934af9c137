#!/usr/bin/env python3
"""The compressed RAM disk under real clients: file systems, databases, swap, nbdcopy, qemu, fio.

run.py --memfold FILE --plugin FILE [--soak] [NAME...]

Each check makes its own device, lets real programs use it, and compares every byte with the original. If the
machine lacks something (root, loop devices, FUSE, a program), the check is reported and skipped;
--missing-packages names the Debian packages.
"""

import argparse
import contextlib
import errno
import hashlib
import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

MIB = 1 << 20
PROGRAMS = {
    "nbdkit": "nbdkit", "nbdcopy": "libnbd-bin", "qemu-img": "qemu-utils", "fio": "fio", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs",
    "sqlite3": "sqlite3", "losetup": "mount", "mkswap": "util-linux", "cc": "gcc",
}


class Missing(Exception):
    """This machine lacks what the check needs."""


class Wrong(Exception):
    """A check that failed."""


def need(*programs):
    for program in programs:
        if not find(program):
            raise Missing(f"{program} (Debian: {PROGRAMS.get(program, program)})")


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def run(*words, **options):
    words = [find(words[0]) or words[0], *map(str, words[1:])]
    options.setdefault("capture_output", True)
    done = subprocess.run(words, check=False, text=options.pop("text", True), **options)
    if done.returncode:
        raise Wrong(f"{' '.join(words)}: {done.returncode}: {(done.stderr or done.stdout or '').strip()[-600:]}")
    return done.stdout


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
    """Bytes that no codec makes smaller."""
    source = random.Random(seed)
    return b"".join(source.randbytes(MIB) for _ in range(mib))


class Place:
    """The files of a check, and what it must clean up at the end."""

    def __init__(self, options):
        self.options = options
        self.stack = contextlib.ExitStack()
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="memfold-disk-")))
        self.devices = 0
        # The devices' messages, and how they ended.
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
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
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
        """Ends a device as FUSE sees it, so that processes that wait for it in the kernel get an error."""
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

    def status(self, process):
        return json.loads(run(self.options.memfold, "disk", "status", "--json", process.device))[0]


def tree_digest(place):
    """Names, sizes and contents of everything below a directory."""
    digest = hashlib.sha256()
    for directory, names, files in os.walk(place):
        names.sort()
        for name in sorted(files):
            path = Path(directory, name)
            digest.update(str(path.relative_to(place)).encode() + b"\0")
            digest.update(os.readlink(path).encode() if path.is_symlink() else path.read_bytes())
    return digest.hexdigest()


def forget():
    """Makes the kernel drop what it has read, so that it is read from the device again."""
    with contextlib.suppress(OSError):
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")


# The checks.


def nbd(place):
    """nbdcopy and qemu-img there and back, holes, trims, everything that a client may ask for."""
    need("nbdcopy", "qemu-img")
    uri, device = place.nbd("--size", "256M", "--cold", "0.5")
    source, back = place.path / "source", place.path / "back"
    content = data(64) + bytes(32 * MIB) + data(32, 2) + bytes(128 * MIB)
    source.write_bytes(content)
    run("nbdcopy", "--connections=4", source, uri)
    info = json.loads(run("nbdinfo", "--json", uri))["exports"][0]
    for can in ["can_cache", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"]:
        if not info[can]:
            raise Wrong(f"{can} is not offered")
    extents = json.loads(run("nbdinfo", "--map", "--json", uri))
    holes = [extent for extent in extents if extent["type"] == 3 and extent["length"] >= 32 * MIB]
    if len(holes) != 2 or sum(extent["length"] for extent in extents) != 256 * MIB:
        raise Wrong(f"holes are not seen: {extents}")
    until(lambda: place.status(device)["dense_bytes"] > 60 * MIB, "cold blocks are made denser", 60)
    for connections in (1, 4):
        run("nbdcopy", f"--connections={connections}", uri, back)
        if back.read_bytes() != content:
            raise Wrong("nbdcopy brings something else back")
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", uri, place.path / "image.qcow2")
    run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", source, place.path / "image.qcow2")
    uri2, device2 = place.nbd("--size", "256M", "--share")
    run("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", place.path / "image.qcow2", uri2)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", source, uri2)
    run("qemu-io", "-f", "raw", "-c", "discard 1M 20M", "-c", "write -z 33M 10M", "-c", "write -P 0x5a 50M 7k", "-c", "read -P 0 1M 20M",
        "-c", "read -P 0 33M 10M", "-c", "read -P 0x5a 50M 7k", "-c", "write -P 1 49999k 1", "-c", "flush", uri2)
    expected = bytearray(content)
    expected[MIB: 21 * MIB] = bytes(20 * MIB)
    expected[33 * MIB: 43 * MIB] = bytes(10 * MIB)
    expected[50 * MIB: 50 * MIB + 7168] = b"\x5a" * 7168
    expected[49999 * 1024] = 1
    run("nbdcopy", uri2, back)
    if back.read_bytes() != bytes(expected):
        raise Wrong("discards, zeros and small writes are not what they should be")
    before = place.status(device2)["memory_bytes"]
    run("qemu-io", "-f", "raw", "-c", "discard 0 256M", uri2)
    until(lambda: place.status(device2)["payload_bytes"] == 0, "everything is trimmed", 1)
    after = until(lambda: (m := place.status(device2)["memory_bytes"]) < before / 2 and m, "memory comes back", 1)
    return f"{before / MIB:.0f} MiB, {after / MIB:.0f} after a trim"


def file_system(place, make, check, mib):
    need("losetup", make[0])
    if os.geteuid():
        raise Missing("root, to mount")
    file, device = place.file("--size", "2G", "--cold", "0.5")
    loop = place.loop(file)
    run(*make, loop)
    mounted = place.mount(loop)
    source = place.path / "tree"
    source.mkdir()
    for number, begin in enumerate(range(0, mib * MIB, MIB)):
        (source / f"{number:03}").mkdir()
        part = CONTENT[begin % len(CONTENT):][:MIB]
        for at in range(0, len(part), 37_000):
            (source / f"{number:03}" / f"{at}").write_bytes(part[at: at + 37_000])
    tar = place.path / "tree.tar"
    run("tar", "-C", source, "-cf", tar, ".")
    wanted = tree_digest(source)
    run("tar", "-C", mounted, "-xf", tar)
    forget()
    lost = mounted / "lost+found"
    if lost.exists():
        lost.rmdir()
    if tree_digest(mounted) != wanted:
        raise Wrong("the tree is not what it was")
    full = place.status(device)
    until(lambda: place.status(device)["dense_bytes"] > full["logical_bytes"] / 2, "cold blocks are made denser", 60)
    forget()
    if tree_digest(mounted) != wanted:
        raise Wrong("the tree is not what it was when it is cold")
    for number in range(0, mib, 2):
        for tree in (mounted, source):
            shutil.rmtree(tree / f"{number:03}")
    os.sync()
    run("fstrim", mounted)
    trimmed = until(lambda: (s := place.status(device))["logical_bytes"] < full["logical_bytes"] * 0.7 and s, "fstrim gives memory back", 5)
    wanted = tree_digest(source)
    run("umount", mounted)
    run(*check, loop)
    mounted = place.mount(loop)
    if tree_digest(mounted) != wanted:
        raise Wrong("the tree is not what it was after half of it was deleted")
    run("umount", mounted)
    return f"{full['logical_bytes'] / MIB:.0f} MiB in {full['memory_bytes'] / MIB:.0f}, {trimmed['memory_bytes'] / MIB:.0f} after fstrim"


def ext4(place):
    """A tree on ext4: checksums, fstrim, e2fsck."""
    return file_system(place, ["mkfs.ext4", "-q"], ["e2fsck", "-fn"], 96)


def xfs(place):
    """A tree on XFS: checksums, fstrim, xfs_repair."""
    return file_system(place, ["mkfs.xfs", "-q"], ["xfs_repair", "-n"], 96)


def btrfs(place):
    """A tree on Btrfs, which has checksums of its own."""
    return file_system(place, ["mkfs.btrfs", "-q"], ["btrfs", "check"], 96)


def sqlite(place):
    """A database: a thousand transactions, deletions, VACUUM, its own integrity check; killed in the middle."""
    need("sqlite3", "losetup", "mkfs.ext4")
    if os.geteuid():
        raise Missing("root, to mount")
    file, device = place.file("--size", "1G", "--cold", "0.3")
    loop = place.loop(file)
    run("mkfs.ext4", "-q", loop)
    mounted = place.mount(loop)
    script = """
import random, sqlite3, sys
r = random.Random(7)
c = sqlite3.connect(sys.argv[1])
c.execute('create table t(id integer primary key, name text, value real, note blob)')
c.execute('create index i on t(name)')
print('begun', flush=True)
for n in range(int(sys.argv[2])):
    with c:
        c.executemany('insert into t(name, value, note) values(?,?,?)', ((f'name {r.randrange(9999)}', r.random(), r.randbytes(r.randrange(400))) for _ in range(100)))
        c.execute('delete from t where id % 7 = ? and id > ?', (n % 7, n * 90))
        c.execute('update t set value = value + 1 where id % 11 = ?', (n % 11,))
"""
    database = mounted / "a.db"
    run(sys.executable, "-c", script, database, 200)
    victim = subprocess.Popen([sys.executable, "-c", script, str(mounted / "b.db"), "100000"], stdout=subprocess.PIPE)
    victim.stdout.readline()
    time.sleep(1)
    victim.kill()
    victim.wait()
    forget()
    for name in ("a.db", "b.db"):
        for statement in ("pragma integrity_check", "vacuum", "pragma integrity_check"):
            said = run("sqlite3", mounted / name, statement).strip()
            if said not in ("ok", ""):
                raise Wrong(f"{name}: {statement}: {said}")
        forget()
    plain = place.path / "plain.db"
    run(sys.executable, "-c", script, plain, 200)
    dumps = [run("sqlite3", path, ".dump") for path in (plain, database)]
    if dumps[0] != dumps[1]:
        raise Wrong("the database does not hold what a plain one does")
    run("umount", mounted)
    run("e2fsck", "-fn", loop)
    return f"ratio {place.status(device)['memory_ratio']}"


def postgres(place):
    """PostgreSQL: pgbench, a crash, pg_amcheck."""
    directories = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not directories:
        raise Missing("PostgreSQL (Debian: postgresql)")
    if os.geteuid():
        raise Missing("root, to mount")
    bins = directories[-1]
    file, device = place.file("--size", "2G", "--cold", "1")
    loop = place.loop(file)
    run("mkfs.ext4", "-q", loop)
    mounted = place.mount(loop)
    os.chmod(place.path, 0o755)
    shutil.chown(mounted, "postgres", "postgres")
    at = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    place_of_data = mounted / "data"
    run(*at, bins / "initdb", "-D", place_of_data, "-k", "--no-instructions", cwd="/")
    start = [*at, bins / "pg_ctl", "-D", place_of_data, "-w", "-l", mounted / "log", "-o", f"-k {mounted} -c listen_addresses=", "start"]
    run(*start, cwd="/", capture_output=False, stdout=subprocess.DEVNULL)
    client = {"cwd": "/", "env": {**os.environ, "PGHOST": str(mounted), "PGUSER": "postgres"}}
    try:
        run(bins / "pgbench", "-i", "-s", "20", "-q", "postgres", **client)
        seconds = 120 if place.options.soak else 10
        run(bins / "pgbench", "-c", "4", "-T", seconds, "postgres", **client)
        run(*at, bins / "pg_ctl", "-D", place_of_data, "-m", "immediate", "stop", cwd="/")
        forget()
        run(*start, cwd="/", capture_output=False, stdout=subprocess.DEVNULL)
        run(bins / "psql", "-c", "create extension amcheck", "postgres", **client)
        run(bins / "pg_amcheck", "--heapallindexed", "postgres", **client)
        sums = run(bins / "psql", "-At", "-c", "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)", "postgres", **client)
        if sums.strip() != "t":
            raise Wrong("the balances are not what the history says")
    finally:
        run(*at, bins / "pg_ctl", "-D", place_of_data, "-m", "fast", "stop", cwd="/")
    run(*at, bins / "pg_checksums", "-D", place_of_data, cwd="/")
    status = place.status(device)
    run("umount", mounted)
    run("e2fsck", "-fn", loop)
    return f"ratio {status['memory_ratio']}"


def cgroup(place, mib):
    """A memory cgroup with a limit (version 1), or nothing."""
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
    run("cc", "-O2", "-o", eater, Path(__file__).with_name("memeater.c"))

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
    if os.geteuid():
        raise Missing("root, for swapon")
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
    """CRAMES's memeater (6.2) in a fifth of what it eats."""
    device = swap_on(place, "--limit", "256M")
    said = eat(place, device, cgroup(place, 48), 240, 1, 300)
    status = place.status(device)
    if status["pages_written"] < 20_000 or status["pages_read"] < 20_000:
        raise Wrong(f"it was not swapped: {status}")
    until(lambda: place.status(device)["logical_bytes"] < 10 * MIB, "what nobody has any more is discarded")
    return f"{said}; {status['peak_memory_bytes'] / MIB:.0f} MiB at most for the device"


def fio(place):
    """Random sizes and trims at queue depth 32, each block with a checksum."""
    need("fio")
    seconds = 300 if place.options.soak else 15
    said = []
    backed = ["--limit", "160M", "--backing", place.path / "backing"]
    for name, (kind, *settings) in {"fast": ["randrw"], "trims": ["randtrimwrite"], "limit": ["randrw", *backed]}.items():
        uri, device = place.nbd("--size", "512M", "--cold", "0.2", *settings)
        if name == "trims":
            # fio may have a trim and a write of the same block in flight at once, and no server orders these. So
            # there are four jobs, each with a part of the device and one request at a time.
            how = "bs=12k\nsize=128m\nio_size=100m\nnumjobs=4\noffset_increment=128m\niodepth=1"
        else:
            how = f"bssplit=512/10:4k/50:4608/5:16k/20:128k/15\nsize=512m\nio_size={64 if seconds > 100 else 1}g\niodepth=32\nverify_backlog=2000"
        job = place.path / f"{name}.fio"
        job.write_text(f"""
[verify]
ioengine=nbd
uri={uri}
rw={kind}
rwmixread=30
{how}
buffer_compress_percentage=60
refill_buffers=1
verify=xxhash
verify_fatal=1
runtime={seconds}
randseed=5
group_reporting
""")
        out = run("fio", "--output-format=json", job, cwd=place.path)
        result = json.loads(out[out.index("{"):])["jobs"][0]
        if result["error"]:
            raise Wrong(f"fio: {result['error']}")
        status = place.status(device)
        said.append(f"{name}: {(result['write']['io_bytes'] + result['read']['io_bytes']) / MIB:.0f} MiB, {status['merges']} merges, {status['spills']} spills")
    return "; ".join(said)


def killed(place):
    """A client is killed while it writes: other clients continue, and each page is one that was written."""
    need("nbdcopy")
    uri, device = place.nbd("--size", "256M", "--cold", "0.2")
    try:
        kill_clients(place, uri, device)
        return ""
    except Wrong:
        # nbdkit 1.32 may abort when a client with requests in flight goes away, whatever the plugin: its own
        # memory plugin does so as well.
        if device.poll() != -signal.SIGABRT or "sock >= 0" not in device.log.read_text():
            raise
    uri, device = place.nbd("--size", "256M", "--cold", "0.2", "--", "--threads", "1")
    kill_clients(place, uri, device)
    return "with one thread for a connection, since nbdkit ended itself by its own assertion (sock >= 0) with more"


def kill_clients(place, uri, device):
    source, back = place.path / "source", place.path / "back"
    old, new = data(128, 3), data(128, 4)
    source.write_bytes(old + bytes(128 * MIB))
    run("nbdcopy", source, uri)
    for kill_after in (0.02, 0.1, 0.3):
        source.write_bytes(new)
        client = subprocess.Popen([find("nbdcopy"), "--connections=4", str(source), uri], stderr=subprocess.DEVNULL)
        time.sleep(kill_after)
        client.send_signal(signal.SIGKILL)
        client.wait()
        time.sleep(0.2)
        if device.poll() is not None:
            raise Wrong(f"the device has ended: {device.poll()}")
        run("nbdcopy", uri, back)
        content = back.read_bytes()
        for at in range(0, 128 * MIB, 4096):
            page = content[at: at + 4096]
            if page != old[at: at + 4096] and page != new[at: at + 4096]:
                raise Wrong(f"the page at {at} is neither the old nor the new one")
        if any(content[128 * MIB:]):
            raise Wrong("there is something where nobody wrote")
    run("nbdcopy", source, uri)
    run("nbdcopy", uri, back)
    if back.read_bytes()[: 128 * MIB] != new:
        raise Wrong("the copy after that is not what was copied")
    if device.poll() is not None:
        raise Wrong("the device has ended")


def limit(place):
    """Filled to the limit: no space is left, nothing is lost, and a trim makes room again."""
    need("qemu-img", "nbdcopy")
    uri, device = place.nbd("--size", "512M", "--limit", "64M")
    source, back = place.path / "source", place.path / "back"
    noise = noise_of(256, 1)
    source.write_bytes(noise)
    done = subprocess.run(["qemu-img", "bench", "-w", "-f", "raw", "-c", "1", uri], capture_output=True, check=False)
    if done.returncode:
        raise Wrong(f"qemu-img: {done.stderr}")
    at = 0
    while True:
        done = subprocess.run([find("qemu-io"), "-f", "raw", "-c", f"write -s {source} {at * MIB} 1M", uri], capture_output=True, text=True, check=False)
        if "No space left" in done.stdout + done.stderr:
            break
        if done.returncode or "error" in done.stdout + done.stderr:
            raise Wrong(f"qemu-io: {done.stdout}{done.stderr}")
        at += 1
        if at > 64:
            raise Wrong("more than the limit was written")
    run("nbdcopy", uri, back)
    content = back.read_bytes()
    for piece in range(at):
        if content[piece * MIB: (piece + 1) * MIB] != noise[:MIB]:
            raise Wrong(f"MiB {piece} is not what was written")
    status = place.status(device)
    if status["peak_memory_bytes"] > 64 * MIB or not status["refused_writes"]:
        raise Wrong(f"the limit was not held: {status}")
    # A file system on the device might not report it.
    if f"{device.device} is full: {status['refused_writes']} write" not in run(place.options.memfold, "disk", "status"):
        raise Wrong("the table has no word of what was refused")
    until(lambda: "the limit of 64 MiB is reached" in device.log.read_text(), "the device says that it is full")
    if f"{device.device} (" not in device.log.read_text():
        raise Wrong(f"it does not say which device is full: {device.log.read_text()}")
    run("qemu-io", "-f", "raw", "-c", "discard 0 8M", "-c", f"write -s {source} 0 6M", uri)
    resident = int(Path(f"/proc/{device.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
    if resident > 64 + 24:
        raise Wrong(f"the process has {resident:.0f} MiB, with a limit of 64 MiB for the device")
    return f"{at} MiB of noise in 64 MiB, {resident:.0f} MiB resident"


def backing(place):
    """A backing file without a name, one on a full file system, and another NBD server."""
    need("nbdcopy")
    need("mkfs.ext4")
    if os.geteuid():
        raise Missing("root, to mount")
    source, back = place.path / "source", place.path / "back"
    noise = noise_of(200, 2)
    source.write_bytes(noise)
    uri, device = place.nbd("--size", "256M", "--limit", "64M", "--backing", place.path / "backing")
    run("nbdcopy", source, uri)
    if (place.path / "backing").exists():
        raise Wrong("the backing file has a name")
    run("nbdcopy", uri, back)
    if back.read_bytes()[: len(noise)] != noise:
        raise Wrong("what went to the backing file comes back as something else")
    spilled = place.status(device)["spilled_bytes"]
    small = place.path / "small"
    small.mkdir()
    image = place.path / "image"
    image.touch()
    os.truncate(image, 32 * MIB)
    run("mkfs.ext4", "-q", image)
    run("mount", "-o", "loop", image, small)
    place.stack.callback(lambda: run("umount", small))
    uri, device = place.nbd("--size", "256M", "--limit", "64M", "--backing", small / "backing")
    # One request at a time: if nbdcopy gives up with others in flight, nbdkit 1.32 may abort, see killed.
    one = ["--connections=1", "--threads=1", "--requests=1"]
    done = subprocess.run([find("nbdcopy"), *one, str(source), uri], capture_output=True, text=True, check=False)
    if "No space left" not in done.stderr:
        raise Wrong(f"a full backing file: nbdcopy says {done.stderr!r}")
    run("nbdcopy", uri, back)
    content = back.read_bytes()
    for at in range(0, len(noise), 4096):
        page = content[at: at + 4096]
        if page != noise[at: at + 4096] and any(page):
            raise Wrong(f"the page at {at} is neither what was written nor nothing")
    device.terminate()
    device.wait(10)
    if (small / "backing").exists():
        raise Wrong("the backing file is left behind")
    socket = place.path / "far.sock"
    far = subprocess.Popen([find("nbdkit"), "-f", "-U", str(socket), "memory", "256M"])
    place.stack.callback(lambda: (far.kill(), far.wait()))
    until(socket.exists, "the other server's socket")
    uri, device = place.nbd("--size", "256M", "--limit", "64M", "--backing", f"nbd+unix:///?socket={socket}")
    run("nbdcopy", source, uri)
    run("nbdcopy", uri, back)
    if back.read_bytes()[: len(noise)] != noise:
        raise Wrong("what went to the other server comes back as something else")
    status = place.status(device)
    if status["spilled_bytes"] < 100 * MIB:
        raise Wrong(f"it was not spilled: {status}")
    return f"{spilled / MIB:.0f} MiB spilled"


def filters(place):
    """nbdkit's filters get their parameters, even where one has the name of a plugin's parameter."""
    need("nbdkit", "nbdinfo")
    uri, device = place.nbd("--size", "64M", "--limit", "32M", "--", "--filter=rate", "--filter=offset", "rate=80M", "range=16M")
    if int(run("nbdinfo", "--size", uri)) != 16 * MIB:
        raise Wrong("the filter 'offset' did not get range=16M")
    uri, device = place.nbd("--size", "64M", "--limit", "32M", "--", "--filter=limit", "limit=3")
    if place.status(device)["limit_bytes"] != 32 * MIB:
        raise Wrong(f"beside the filter 'limit' the limit is {place.status(device)['limit_bytes']}")
    plugin = place.options.plugin
    words = ["nbdkit", "-f", "-U", "-", "--filter=limit", str(plugin), "size=64M"]
    done = subprocess.run([*words, "limit=3", "--run", "true"], capture_output=True, text=True, check=False, timeout=20)
    if not done.returncode or "memory-limit=SIZE" not in done.stderr:
        raise Wrong(f"limit= went to the filter, and nobody said so: {done.returncode}: {done.stderr}")
    run(*words, "limit=3", "memory-limit=16M", "--run", "nbdinfo --size \"$uri\"")
    # A path is bytes, a name is text.
    odd = Path(os.fsdecode(bytes(place.path) + b"/b\xffd d"))
    odd.mkdir()
    name, socket = place.name(), odd / "s"
    device = place.start(["--socket", socket, "--size", "64M", "--limit", "32M", "--backing", odd / "new"], socket.exists, name)
    device.device = name
    if until(lambda: place.status(device), "its status")["address_hex"] != bytes(socket).hex():
        raise Wrong(f"a socket whose path is no text: {place.status(device)}")
    run("nbdinfo", "--size", "nbd+unix:///?socket=" + urllib.parse.quote(bytes(socket)))
    done = subprocess.run(["nbdkit", "-f", "-U", "-", str(plugin), "size=64M", b"name=b\xff", "--run", "true"], capture_output=True, check=False, timeout=20)
    if not done.returncode or b"text" not in done.stderr:
        raise Wrong(f"a name that is no text: {done.returncode}: {done.stderr}")
    done = subprocess.run([place.options.memfold, "disk", "--size", "64M", "--socket", "x", "--name", b"b\xff"], capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 125 or "no text" not in done.stderr:
        raise Wrong(f"--name that is no text: {done.returncode}: {done.stderr}")
    return ""


def commands(place):
    """The command's messages: errors that help, the status of running devices, and of one that was killed."""
    uri, device = place.nbd("--size", "1G", "--codec", "lz4,none")
    status = place.status(device)
    if (status["fast_codec"], status["dense_codec"], status["size_bytes"], status["door"]) != ("lz4", None, 1 << 30, "nbd"):
        raise Wrong(f"status: {status}")
    table = run(place.options.memfold, "disk", "status")
    if device.device not in table or "lz4,none" not in table or uri.split("=")[1] not in table:
        raise Wrong(f"status:\n{table}")
    device.kill()
    device.wait()
    if device.device in run(place.options.memfold, "disk", "status"):
        raise Wrong("a device that was killed is still listed")
    socket = Path(uri.split("=")[1])
    name = place.name()

    def status_of(name):
        return name in run(place.options.memfold, "disk", "status")

    plain = place.path / "plain"
    plain.write_text("")
    again = place.start(["--socket", socket, "--size", "1G"], lambda: socket.exists() and status_of(name), name)
    for words, hint in {
        ("--size", "1G"): "--socket",
        ("--socket", "x"): "size",
        ("--size", "many", "--socket", "x"): "8G",
        ("--size", "1G", "--limit", "1M", "--socket", "x"): "at least",
        ("--size", "1G", "--limit", "many", "--socket", "x"): "--limit 512M",
        ("--size", "1G", "--socket", str(socket)): "already",
        ("--size", "1G", "--socket", "/etc/passwd"): "exists and is not a socket",
        ("--size", "1G", "--codec", "zip", "--socket", "x"): "zstd",
        ("--size", "1G", "--socket", "x", "--mount", "y"): "one way only",
        ("--size", "1G", "--mount", "/no/such/place"): "create it first",
        ("--size", "1G", "--mount", str(plain)): "in which the device will be the file 'disk'",
        ("--size", "1G", "--mount", str(plain / "below")): "ot a directory",
        ("--size", "1G", "--mount", "/dev/null"): "not a directory",
        ("--size", "1G", "--backing", "/etc/passwd", "--mount", str(place.path)): "already",
        ("status", "nobody"): "nobody",
        ("status", "--output", "NAME,SPEED"): "no column 'SPEED'; the columns are NAME,",
    }.items():
        done = subprocess.run([place.options.memfold, "disk", *words], capture_output=True, text=True, check=False, timeout=20)
        if done.returncode != 125 or hint not in done.stderr or not done.stderr.startswith("memfold: "):
            raise Wrong(f"memfold disk {' '.join(words)}: {done.returncode}: {done.stderr!r} does not say {hint!r}")
    if again.poll() is not None:
        raise Wrong("somebody who wanted its socket has ended a device")
    return ""


def status(place):
    """The table for programs: columns by name, bytes, '-' for missing values; mount points and swap of a
    device as a file.
    """
    file, device = place.file("--size", "256M", "--limit", "64M")

    def show(*words):
        return run(place.options.memfold, "disk", "status", *words, device.device)

    if show("-no", "NAME,DATA,COMP-RATIO,DENSE,MOUNTPOINT", "--raw") != f"{device.device} 0bytes - - -\n":
        raise Wrong(f"an empty device:\n{show('--output-all')}")
    empty = place.status(device)
    if (empty["memory_ratio"], empty["compression_ratio"], empty["mount_points"]) != (None, None, []):
        raise Wrong(f"an empty device: {empty}")
    size, limit, address = show("--noheadings", "--raw", "--bytes", "--output", "disksize,mem-limit,ADDRESS").split()
    if (int(size), int(limit), address) != (256 * MIB, 64 * MIB, str(file)):
        raise Wrong(f"{size}, {limit}, {address}")
    heads = show("--output-all").splitlines()[0].split()
    for name in "NAME DISKSIZE DATA COMPR ALGORITHM STREAMS ZERO-PAGES TOTAL MEM-LIMIT MEM-USED MIGRATED COMP-RATIO MOUNTPOINT".split():
        if name not in heads:
            raise Wrong(f"zramctl has a column {name}, and status has {heads}")
    if os.geteuid():
        raise Missing("root, to mount")
    need("mkfs.ext4", "mkswap")
    loop = place.loop(file)
    run("mkfs.ext4", "-q", loop)
    mounted, there = place.mount(loop), place.path / "a b"
    there.mkdir()
    run("mount", "--bind", mounted, there)
    try:
        (mounted / "file").write_bytes(data(8))
        os.sync()
        if place.status(device)["mount_points"] != [str(mounted), str(there)]:
            raise Wrong(f"mounted at {mounted} and {there}: {place.status(device)['mount_points']}")
        said = show("-no", "MOUNTPOINT,COMP-RATIO", "--raw").split()
        if said[0] != f"{mounted},{place.path}/a\\x20b" or not 1 < float(said[1]) < 20:
            raise Wrong(f"for programs: {said}")
    finally:
        run("umount", there)
    total, used = map(int, show("-nbo", "TOTAL,MEM-USED").split())
    if not 0 < total <= used <= 64 * MIB:
        raise Wrong(f"{total} bytes, {used} at most")
    run("umount", mounted)
    run("mkswap", loop)
    try:
        run("swapon", loop)
    except Wrong as why:
        raise Missing(f"swap: {why}") from why
    try:
        if show("-no", "MOUNTPOINT").strip() != "[SWAP]":
            raise Wrong(f"swap is not seen:\n{show()}")
    finally:
        run("swapoff", loop)
    return ""


def mounted(place):
    """The file: copied to, in use when the device is told to end, mounted over, gone without notice."""
    file, device = place.file("--size", "64M")
    content = data(32)
    (place.path / "source").write_bytes(content)
    run("cp", place.path / "source", file)
    if file.read_bytes() != content + bytes(32 * MIB):
        raise Wrong("the file holds something else than what was copied")
    done = subprocess.run([place.options.memfold, "disk", "--size", "1G", "--mount", file.parent], capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 125 or "already" not in done.stderr:
        raise Wrong(f"a second device at the same place: {done.returncode}: {done.stderr!r}")
    # Without standard descriptors: no file that it opens may take their place.
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
    if "in use" not in device.log.read_text() and "busy" not in device.log.read_text():
        raise Wrong(f"it does not say that it is in use: {device.log.read_text()}")
    device.terminate()
    if device.wait(10) or os.path.ismount(file.parent):
        raise Wrong("it did not end when nobody used it any more")
    if "'kill " not in device.log.read_text():
        raise Wrong(f"it does not say that it has to be ended once more: {device.log.read_text()}")
    # The limit is the size that it reports.
    file, device = place.file("--size", "1G", "--limit", "64M")
    before = os.statvfs(file.parent)
    with open(file, "r+b") as disk:
        disk.write(noise_of(24, 3))
    after = os.statvfs(file.parent)
    if before.f_blocks * before.f_frsize != 64 * MIB or not 22 * MIB < (before.f_bfree - after.f_bfree) * before.f_frsize < 30 * MIB:
        raise Wrong(f"statfs does not know the limit: {before}, {after}")
    # A path is bytes.
    odd = Path(os.fsdecode(bytes(place.path) + b"/o\xffd d"))
    (odd / "on").mkdir(parents=True)
    name = place.name()
    words = ["--mount", odd / "on", "--size", "64M", "--limit", "32M", "--backing", odd / "backing"]
    device = place.start(words, (odd / "on/disk").exists, name)
    device.device = name
    status = place.status(device)
    if status["address_hex"] != bytes(odd / "on/disk").hex() or "o\\xffd d" not in run(place.options.memfold, "disk", "status", name):
        raise Wrong(f"a path that is no text: {status}")
    run("cp", place.path / "source", odd / "on/disk")
    twice = subprocess.run([place.options.memfold, "disk", "--size", "1G", "--mount", odd / "on"], capture_output=True, text=True, check=False, timeout=20)
    if twice.returncode != 125 or "already" not in twice.stderr:
        raise Wrong(f"a second device where the path is no text: {twice.returncode}: {twice.stderr!r}")
    device.terminate()
    if device.wait(10) or os.path.ismount(odd / "on"):
        raise Wrong("a device whose path is no text does not end")
    second, device = place.file("--size", "64M")
    device.kill()
    device.wait()
    done = subprocess.run([place.options.memfold, "disk", "--size", "1G", "--mount", second.parent], capture_output=True, text=True, check=False, timeout=20)
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
        # A loop device. One half of each page is written, the other is changed through a mapping.
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
    """Two processes read a page through mappings as fast as they can, while it is written again and again."""
    # Since 6.19, and in updates of older kernels, the kernel drops what was read during the write.
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
    global CONTENT
    CONTENT = data(96, 5)
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
