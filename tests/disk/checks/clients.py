"""NBD clients: nbdcopy, qemu, fio, and clients that are killed."""

import json
import signal
import subprocess
import time

from .tools import MIB, Wrong, data, find, need, run, until


def nbd(place):
    """Copies by nbdcopy and qemu-img in both directions, holes, trims, all kinds of requests."""
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


def fio(place):
    """Random sizes and trims at queue depth 32, each block with a checksum."""
    need("fio")
    seconds = 300 if place.options.soak else 15
    said = []
    backed = ["--limit", "160M", "--backing", place.path / "backing"]
    for name, (kind, *settings) in {"fast": ["randrw"], "trims": ["randtrimwrite"], "limit": ["randrw", *backed]}.items():
        uri, device = place.nbd("--size", "512M", "--cold", "0.2", *settings)
        if name == "trims":
            # fio may have a trim and a write of the same block in flight at once, which servers do not order.
            # So there are four jobs, each with a part of the device and one request at a time.
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
        # nbdkit 1.32 may abort when a client with requests in flight goes away. This also happens with its
        # own memory plugin.
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
