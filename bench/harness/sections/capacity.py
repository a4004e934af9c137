"""How much fits, and whether the limit is kept while a program grows as fast as it can.

The load is memeater's: distinct captured pages are written, then read back and compared byte by byte.
"""

import json
import os
import tempfile
from pathlib import Path

import memory
import peers
import report

MIB = memory.MIB
LIMIT = 128 * MIB
STEP = LIMIT // 8


def eat(peer, binaries, files, amount, place, threads=1, limit=LIMIT, **options):
    """One run of memeater; (whether it kept the limit and read everything back correctly, its figures)."""
    place = Path(place)
    command = [str(binaries / "memeater"), "--amount", str(amount), "--threads", str(threads)]
    for file in files:
        command += ["--file", str(file)]
    result = peer.run(command, limit, place, stdout=place / "out", stderr=place / "err", period=0.01, timeout=300, **options)
    over, times = memory.excess(result.samples, limit)
    row = {"amount_bytes": amount, "threads": threads, "limit_bytes": limit, "status": result.status[0],
           "peak_bytes": result.peak, "over_bytes": over, "samples_over": times, "samples": len(result.samples),
           "wall": result.wall, "cpu": result.cpu, "stats": result.stats}
    if result.status[0] == 0:
        row["memeater"] = json.loads((place / "out").read_text())
    else:
        row["words"] = (place / "err").read_text()[-300:]
    return result.status[0] == 0 and over == 0, row


def largest(peer, binaries, files, place, start=3 * LIMIT):
    """The largest amount that fits, to an eighth of the limit; (bytes, rows of every attempt)."""
    rows, fits, fails = [], 0, None
    amount = start
    while fails is None or fails - fits > STEP:
        good, row = eat(peer, binaries, files, amount, place)
        rows.append({**row, "fits": good})
        if good:
            fits = amount
            amount = amount + LIMIT // 2 if fails is None else (fits + fails) // 2
        else:
            fails = amount
            amount = (fits + fails) // 2
        amount = amount // MIB * MIB
        if amount < STEP:
            break
    return fits, rows


def section(binary, results, options, binaries, files):
    """The table of CRAMES 6.2: without memfold, without and with the reserve, and with other fill ratios."""
    ways = [("reserve, fill ratio 56/64", []), ("no reserve", ["--no-reserve"])]
    if not options.quick:
        ways += [(f"reserve, fill ratio {ratio}/64", ["--fill-ratio", f"{ratio}/64"]) for ratio in (32, 48, 60, 63)]
    rows, lines = [], [["no memfold", f"{LIMIT / MIB:.0f}", 1.0, None, None]]
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
        for name, more in ways:
            amount, tries = largest(peers.Memfold(binary, *more), binaries, files, place)
            rows += [{"way": name, **row} for row in tries]
            last = max((row for row in tries if row["fits"]), key=lambda row: row["amount_bytes"], default=None)
            lines.append([name, f"{amount / MIB:.0f}", amount / LIMIT, last and last["wall"], last and last["cpu"]])
            report.progress(f"capacity, {name}: {amount / MIB:.0f} MiB")
            results.add("capacity", rows, limit_bytes=LIMIT)
    print(f"Capacity: unique pages written and read back right within {LIMIT / MIB:.0f} MiB")
    report.table(["way", "MiB", "times the limit", "wall s", "cpu s"], lines)


def growth(binary, results, options, binaries, files):
    """The limit sampled every 10 ms while all CPUs fill memory; and under a hard cgroup of 110 %."""
    rows, lines = [], []
    cpus = len(os.sched_getaffinity(0))
    limits = (64, 128, 256) if options.quick else (64, 128, 256, 512)
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
        for limit in (size * MIB for size in limits):
            for hard in (None, limit * 11 // 10):
                if hard and not (probe := memory.Cgroup.make("probe")):
                    report.progress("growth: no memory cgroup can be made: the hard limit is not tried")
                    continue
                if hard:
                    probe.close()
                good, row = eat(peers.Memfold(binary), binaries, files, limit * 2, place, threads=cpus, limit=limit,
                                hard_limit=hard)
                rows.append({**row, "hard_limit_bytes": hard, "held": good})
                lines.append([f"{limit / MIB:.0f} MiB{', hard limit 110 %' if hard else ''}", f"{row['peak_bytes'] / limit:.1%}",
                              f"{row['samples_over']}/{row['samples']}", str(row["status"]), row["wall"]])
                results.add("growth", rows)
    print(f"Growth by {cpus} threads to twice the limit, sampled every 10 ms (tolerance 105 % + 8 MiB)")
    report.table(["limit", "peak/limit", "samples over", "status", "wall s"], lines)
