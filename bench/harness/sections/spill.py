"""Touches of pages in memory that has room for about half of them, with the rest on a tier: a file (compared
with a swap file), an NBD server on a local socket, Redis.

First with 1 GiB of captured heap pages, which compress about 3:1. Then with 512 MiB of noise, which does not
compress at all, so that every page that is neither resident nor in the store is on the tier.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import memory
import peers
import report

from . import synthetic

MIB = memory.MIB
AMOUNT = 1024 * MIB
# The contents of the pages, their bytes, the memory that they get, the pattern, and the number of touches.
LOADS = [("heap pages", AMOUNT, 210 * MIB, "zipf:0.99", 600_000), ("heap pages", AMOUNT, 210 * MIB, "sequential", 500_000),
         ("heap pages", AMOUNT, 210 * MIB, "uniform", 100_000),
         ("noise", 512 * MIB, 256 * MIB, "zipf:0.99", 300_000), ("noise", 512 * MIB, 256 * MIB, "sequential", 250_000)]
# The sampling interval in seconds. It is long, since counting shared pages briefly stops the program.
PERIOD = 0.25


class File:
    """memfold, spilling to a file."""

    name = "memfold, file"

    def __init__(self, binary, place):
        self.binary, self.place = binary, place

    @contextlib.contextmanager
    def ready(self):
        self.target = self.place
        yield

    def run(self, command, total, directory, load=None, **options):
        return peers.Memfold(self.binary, "--spill", self.target).run(command, total, directory, load, **options)


class Nbd(File):
    """memfold, spilling to nbdkit's memory plugin behind a local socket."""

    name = "memfold, NBD"

    @contextlib.contextmanager
    def ready(self):
        if not shutil.which("nbdkit"):
            raise peers.NotPossible("nbdkit is not installed")
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place, served(["nbdkit", "-f", "-U", f"{place}/s", "memory", "2G"], f"{place}/s"):
            self.target = f"nbd+unix:///?socket={place}/s"
            yield


class Redis(File):
    """memfold, spilling to redis-server behind a local socket."""

    name = "memfold, Redis"

    @contextlib.contextmanager
    def ready(self):
        if not shutil.which("redis-server"):
            raise peers.NotPossible("redis-server is not installed")
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place, \
                served(["redis-server", "--port", "0", "--save", "", "--unixsocket", f"{place}/s"], f"{place}/s"):
            self.target = f"redis+unix://{place}/s"
            yield


@contextlib.contextmanager
def served(command, socket):
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not os.path.exists(socket):
            time.sleep(0.01)
        yield
    finally:
        server.kill()
        server.wait()


def section(binary, results, options, binaries, files):
    """Interleaved repeats of every load with every peer; prints the table of medians."""
    place = options.tmp or "/var/tmp"
    everyone = [peers.SwapFile(place), File(binary, place), Nbd(binary, place), Redis(binary, place)]
    everyone = [peer for peer in everyone if not options.peers or any(want in peer.name for want in options.peers)]
    rows, skipped = [], {}
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as own:
        noise = Path(own) / "noise"
        noise.write_bytes(os.urandom(64 * MIB))
        for repeat in range(options.repeats):
            for peer in everyone:
                try:
                    with peer.ready(), tempfile.TemporaryDirectory(prefix="memfold-bench-") as directory:
                        for pages, amount, total, pattern, touches in LOADS:
                            source = [noise] if pages == "noise" else files
                            touches = touches // 4 if options.quick else touches
                            row = {"peer": peer.name, "pages": pages, "pattern": pattern, "total_bytes": total, "repeat": repeat}
                            row.update(synthetic.one(peer, synthetic.touch(binaries, source, pattern, touches, 1, amount), total, directory, PERIOD))
                            stats = directory + "/stats.json"
                            if isinstance(peer, File) and os.path.exists(stats):
                                row["stats"] = peers.json.loads(Path(stats).read_text())
                            rows.append(row)
                            spilled = row.get("stats", {}).get("pages_spilled", 0) >> 8
                            report.progress(f"{peer.name:16} {pages:10} {pattern:10} {report.shown(row['wall'])} s, {report.shown(row['cpu'])} s CPU, "
                                            f"p50 {slow(row, 'p50')} us, from the tier {fetch(row)} us, peak {row['peak_bytes'] / MIB:.0f} MiB, {spilled} MiB spilled {row.get('words', '')}")
                            results.add("spill", rows, skipped=skipped)
                except peers.NotPossible as why:
                    skipped[peer.name] = str(why)
    results.add("spill", rows, skipped=skipped)
    show(rows, everyone)
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")


def slow(row, key):
    return row["touch"]["slow_us"][key] if "touch" in row else None


def fetch(row):
    """The median service time of faults on spilled pages in us, including faults while the pages are filled
    and while they are checked at the end.
    """
    return row.get("stats", {}).get("spill", {}).get("fault_us", {}).get("p50")


def show(rows, everyone):
    names = [peer.name for peer in everyone if any(row["peer"] == peer.name for row in rows)]
    lines = []
    for pages, _, total, pattern, _ in LOADS:
        mine = {name: [row for row in rows if (row["peer"], row["pages"], row["pattern"]) == (name, pages, pattern)] for name in names}
        walls = {name: report.median(mine[name], "wall") for name in names}
        faults = {name: report.median([{"p50": slow(row, "p50")} for row in mine[name] if "touch" in row], "p50") for name in names}
        fetches = {name: report.median([{"p50": fetch(row)} for row in mine[name] if fetch(row)], "p50") for name in names}
        swap, own = walls.get("swap file"), walls.get("memfold, file")
        lines.append([f"{pages}, {total // MIB} MiB, {pattern}", *(f"{report.shown(walls[name])} ({report.shown(faults[name])}{f', {report.shown(fetches[name])}' if fetches[name] else ''})" for name in names),
                      own / swap if own and swap else None])
    print("Touches with half of the pages on a tier: medians of seconds (median us of slow touches, and of faults on spilled pages alone)")
    report.table(["load", *names, "file/swap"], lines)
