"""Touches in three patterns over 1 GiB of captured heap pages, every peer with the same total.

The time of the touches alone is compared; the filling and the final check of every byte are also measured,
and are in the raw data.
"""

import json
import tempfile
from pathlib import Path

import memory
import peers
import report

MIB = memory.MIB
AMOUNT = 1024 * MIB
TOTALS = (620 * MIB, 512 * MIB)
THREADS = [1, 2]
# Three scans; for the two random patterns, enough touches for every peer to run for seconds.
PATTERNS = {"sequential": 3 * AMOUNT // 4096, "uniform": 600_000, "zipf:0.99": 2_000_000}
SHORT = {"sequential": AMOUNT // 4096, "uniform": 200_000, "zipf:0.99": 600_000}


def touch(binaries, files, pattern, touches, threads, amount=AMOUNT):
    command = [str(binaries / "touch"), "--amount", str(amount), "--pattern", pattern, "--touches", str(touches),
               "--threads", str(threads)]
    for file in files:
        command += ["--file", str(file)]
    return command


def one(peer, command, total, place, period=0.01):
    """One run; its row of figures. Memory is sampled periodically."""
    place = Path(place)
    result = peer.run(command, total, place, load="touch", stdout=place / "out", stderr=place / "err", period=period,
                      timeout=300)
    row = {"wall": None, "cpu": None, "status": result.status[0], "run_wall": result.wall, "run_cpu": result.cpu,
           "peak_bytes": result.peak, "unsettled": getattr(result, "unsettled", False),
           "cgroup_limit_bytes": getattr(result, "cgroup_limit", None)}
    if result.status[0] == 0:
        touched = json.loads((place / "out").read_text())
        row.update(wall=touched["wall_seconds"], cpu=touched["user_seconds"] + touched["system_seconds"], touch=touched)
    else:
        row["words"] = (place / "err").read_text()[-300:]
    if isinstance(peer, peers.Memfold):
        row["over_bytes"] = memory.excess(result.samples, total)[0]
        row["stats"] = result.stats
    return row


def all_peers(binary, options):
    zrams = [peers.Zram(algorithm, cluster) for algorithm in ("lzo-rle", "lz4") for cluster in (0, 3)]
    found = [peers.Unlimited(), *zrams, peers.SwapFile(options.tmp or "/var/tmp"), *peers.memfolds(binary)]
    return [peer for peer in found if not options.peers or any(want in peer.name for want in options.peers)]


def section(binary, results, options, binaries, files):
    """Interleaved repeats of every row with every peer; prints the table of medians."""
    counts = SHORT if options.quick else PATTERNS
    rows, skipped = [], {}
    others = all_peers(binary, options)
    for file in files:
        Path(file).read_bytes()  # into the page cache, charged to this process and not to the first cgroup
    for repeat in range(options.repeats):
        for peer in others:
            try:
                with peer.ready(), tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
                    for total in TOTALS:
                        for threads in options.threads:
                            for pattern, touches in counts.items():
                                row = {"peer": peer.name, "pattern": pattern, "threads": threads, "total_bytes": total,
                                       "repeat": repeat}
                                row.update(one(peer, touch(binaries, files, pattern, touches, threads), total, place))
                                rows.append(row)
                                report.progress(f"{peer.name:18} {total // MIB} MiB, {threads} thread(s), {pattern:10} "
                                                f"{report.shown(row['wall'])} s, {report.shown(row['cpu'])} s CPU, "
                                                f"peak {row['peak_bytes'] / MIB:.0f} MiB")
                                results.add("synthetic", rows, source=options.source, touches=counts)
            except peers.NotPossible as why:
                skipped[peer.name] = str(why)
    results.add("synthetic", rows, source=options.source, touches=counts, skipped=skipped)
    show(rows, others, counts)
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")


def show(rows, others, counts):
    """One line per row of the load, one column per peer."""
    names = [peer.name for peer in others if any(row["peer"] == peer.name for row in rows)]
    lines = []
    for threads in THREADS:
        for total in TOTALS:
            for pattern in counts:
                mine = [row for row in rows if (row["threads"], row["total_bytes"], row["pattern"]) == (threads, total, pattern)]
                wall = {name: report.median([row for row in mine if row["peer"] == name], "wall") for name in names}
                cpu = {name: report.median([row for row in mine if row["peer"] == name], "cpu") for name in names}
                zram = min((wall[name] for name in names if name.startswith("zram") and wall[name]), default=None)
                own = wall.get("memfold")
                if not mine:
                    continue
                lines.append([f"{threads} thread{'s' if threads > 1 else ''}, {total // MIB} MiB, {pattern}",
                              *(f"{report.shown(wall[name])} ({report.shown(cpu[name])})" for name in names),
                              own / zram if own and zram else None])
    print(f"Touches over {AMOUNT // MIB} MiB of captured pages: seconds of wall time (CPU), medians")
    report.table(["load", *names, "memfold/zram"], lines)
