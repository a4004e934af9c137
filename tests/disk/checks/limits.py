"""What happens at the limit, with a backing device and without."""

import os
import subprocess
from pathlib import Path

from .tools import MIB, Wrong, attempt, find, need, need_root, noise_of, run, until


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
        done = attempt(find("qemu-io"), "-f", "raw", "-c", f"write -s {source} {at * MIB} 1M", uri)
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
    # The device itself reports this, since a file system on it might not.
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
    """An unnamed backing file, one on a full file system, and another NBD server."""
    need("nbdcopy", "mkfs.ext4")
    need_root("to mount")
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
    # One request at a time: nbdkit 1.32 may abort if nbdcopy gives up with others in flight (see `killed`).
    one = ["--connections=1", "--threads=1", "--requests=1"]
    done = attempt(find("nbdcopy"), *one, str(source), uri)
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
