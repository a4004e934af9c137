"""The command: its messages, its table of devices, and nbdkit's filters."""

import os
import subprocess
import urllib.parse
from pathlib import Path

from .tools import MIB, Missing, Wrong, attempt, data, need, need_root, run


def filters(place):
    """nbdkit's filters get their parameters, even one with the name of a parameter of the plugin."""
    need("nbdkit", "nbdinfo")
    uri, device = place.nbd("--size", "64M", "--limit", "32M", "--", "--filter=rate", "--filter=offset", "rate=80M", "range=16M")
    if int(run("nbdinfo", "--size", uri)) != 16 * MIB:
        raise Wrong("the filter 'offset' did not get range=16M")
    uri, device = place.nbd("--size", "64M", "--limit", "32M", "--", "--filter=limit", "limit=3")
    if place.status(device)["limit_bytes"] != 32 * MIB:
        raise Wrong(f"beside the filter 'limit' the limit is {place.status(device)['limit_bytes']}")
    plugin = place.options.plugin
    words = ["nbdkit", "-f", "-U", "-", "--filter=limit", str(plugin), "size=64M"]
    done = attempt(*words, "limit=3", "--run", "true")
    if not done.returncode or "memory-limit=SIZE" not in done.stderr:
        raise Wrong(f"limit= went to the filter, and nobody said so: {done.returncode}: {done.stderr}")
    run(*words, "limit=3", "memory-limit=16M", "--run", "nbdinfo --size \"$uri\"")
    # A path may have any bytes, a name is UTF-8.
    odd = Path(os.fsdecode(bytes(place.path) + b"/b\xffd d"))
    odd.mkdir()
    name, socket = place.name(), odd / "s"
    device = place.start(["--socket", socket, "--size", "64M", "--limit", "32M", "--backing", odd / "new"], socket.exists, name)
    device.device = name
    if place.status(device)["address_hex"] != bytes(socket).hex():
        raise Wrong(f"a socket whose path is not text: {place.status(device)}")
    run("nbdinfo", "--size", "nbd+unix:///?socket=" + urllib.parse.quote(bytes(socket)))
    done = subprocess.run(["nbdkit", "-f", "-U", "-", str(plugin), "size=64M", b"name=b\xff", "--run", "true"], capture_output=True, check=False, timeout=20)
    if not done.returncode or b"UTF-8" not in done.stderr:
        raise Wrong(f"a name that is not text: {done.returncode}: {done.stderr}")
    done = attempt(place.options.memfold, "disk", "--size", "64M", "--socket", "x", "--name", b"b\xff")
    if done.returncode != 125 or "not UTF-8" not in done.stderr:
        raise Wrong(f"--name that is not text: {done.returncode}: {done.stderr}")
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
        done = attempt(place.options.memfold, "disk", *words)
        if done.returncode != 125 or hint not in done.stderr or not done.stderr.startswith("memfold: "):
            raise Wrong(f"memfold disk {' '.join(words)}: {done.returncode}: {done.stderr!r} does not say {hint!r}")
    if again.poll() is not None:
        raise Wrong("somebody who wanted its socket has ended a device")
    return ""


def status(place):
    """The table for programs: columns by name, bytes, '-' for missing values; mount points, and swap on a
    device as a file.
    """
    file, device = place.file("--size", "256M", "--limit", "64M")

    def show(*words):
        return run(place.options.memfold, "disk", "status", *words, device.device)

    if show("-no", "NAME,DATA,COMP-RATIO,DENSE,MOUNTPOINT", "--raw") != f"{device.device} 0B - - -\n":
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
    need_root("to mount")
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
