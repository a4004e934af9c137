"""File systems on a device: a tree is copied, trimmed, checked."""

import functools
import hashlib
import os
import shutil
from pathlib import Path

from .tools import MIB, Wrong, data, forget, need, need_root, run, until


@functools.cache
def content():
    return data(96, 5)


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


def file_system(place, make, check, mib):
    need("losetup", make[0])
    need_root("to mount")
    file, device = place.file("--size", "2G", "--cold", "0.5")
    loop = place.loop(file)
    run(*make, loop)
    mounted = place.mount(loop)
    source = place.path / "tree"
    source.mkdir()
    for number, begin in enumerate(range(0, mib * MIB, MIB)):
        (source / f"{number:03}").mkdir()
        part = content()[begin % (96 * MIB):][:MIB]
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
    place.unmount(mounted, loop)
    run(*check, loop)
    mounted = place.mount(loop)
    if tree_digest(mounted) != wanted:
        raise Wrong("the tree is not what it was after half of it was deleted")
    place.unmount(mounted, loop)
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
