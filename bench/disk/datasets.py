"""Real data to fill devices with: binaries, source code, a database file, pages of processes."""

import itertools
import os
import shutil
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
import captures  # noqa: E402

NAMES = ("binaries", "source", "database", "pages")
SOURCE_ENDS = (".c", ".h", ".hpp", ".rs", ".py", ".js", ".java", ".go", ".pl", ".pm")


def files(roots, wanted):
    for root in roots:
        for directory, directories, names in os.walk(root):
            directories.sort()
            for name in sorted(names):
                path = os.path.join(directory, name)
                if os.path.isfile(path) and not os.path.islink(path) and wanted(path):
                    yield path


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def gather(roots, wanted, size):
    """Whole files one after the other, until there are enough bytes."""
    parts, have = [], 0
    for path in files(roots, wanted):
        with open(path, "rb") as file:
            parts.append(file.read())
        have += len(parts[-1])
        if have >= size:
            break
    return b"".join(parts)[:size]


def database(size, place):
    """A database about this machine's packages and files: names, sums, sizes and times, with two indexes."""
    path = place / "files.db"
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.execute("create table file(id integer primary key, package text, path text, md5 text, size integer, time real)")
    base.execute("create index by_path on file(path)")
    base.execute("create index by_sum on file(md5)")
    sums = sorted(Path("/var/lib/dpkg/info").glob("*.md5sums"))
    for turn in itertools.count():
        before = path.stat().st_size
        for listed in sums:
            rows = []
            for line in listed.read_text(errors="replace").splitlines():
                md5, _, name = line.partition("  ")
                try:
                    stat = os.stat("/" + name)
                except OSError:
                    continue
                rows.append((listed.name[:-8], f"/{name}" if not turn else f"/copy{turn}/{name}", md5, stat.st_size, stat.st_mtime))
            with base:
                base.executemany("insert into file(package, path, md5, size, time) values(?,?,?,?,?)", rows)
            if path.stat().st_size >= size:
                break
        if path.stat().st_size >= size or path.stat().st_size == before:
            break
    base.close()
    return path.read_bytes()[:size]


def pages(size):
    with captures.corpus() as (found, _):
        return b"".join(file.read_bytes() for file in found)[:size]


def make(name, size, place):
    """The file of a data set, made once and kept in `place`. If there are fewer data, they are repeated."""
    path = place / f"{name}-{size >> 20}.img"
    if path.exists() and path.stat().st_size == size:
        return path
    print(f"making {path}", file=sys.stderr, flush=True)
    content = {
        "binaries": lambda: gather(["/usr/lib", "/usr/bin"], is_elf, size),
        "source": lambda: gather(["/usr/include", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share/perl", os.path.expanduser("~/.cargo/registry/src")],
                                 lambda path: path.endswith(SOURCE_ENDS), size),
        "database": lambda: database(size, place),
        "pages": lambda: pages(size),
    }[name]()
    if len(content) < 8 << 20:
        sys.exit(f"there are only {len(content)} bytes of {name} on this machine")
    content = content[:len(content) & -4096]
    part = path.with_suffix(".part")
    with open(part, "wb") as file:
        while (left := size - file.tell()) > 0:
            file.write(content[:left])
    shutil.move(part, path)
    return path
