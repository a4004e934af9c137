"""Tries the limits that `memfold analyze` recommends: runs the same programs under `memfold run` with them.

Each program is first started without memfold, filled, and analysed while it works. Then it is started under
the limit, filled, and does the same work twice. During the first round, memfold still compresses what filling
left uncompressed; the second round shows the lasting slowdown.
"""

import json
import statistics
import subprocess
import tempfile
import threading
from pathlib import Path

import memory
import report
from idling import servers

from . import idle

WORK = 15


def section(memfold, results, options):
    """Prints the expected slowdown beside the measured one."""
    work, rows, lines = 5 if options.quick else WORK, [], []
    for kind in servers.ALL:
        if options.programs and not any(word in kind.name for word in options.programs):
            continue
        if kind(".", options.quick).missing():
            report.progress(f"{kind.name}: skipped (Debian: {' '.join(kind.packages)})")
            continue
        own = [one(memfold, kind, options.quick, work) for _ in range(options.repeats)]
        if None in own:
            report.progress(f"{kind.name}: no limit was recommended")
            continue
        rows += [{"program": kind.name, "repeat": repeat, **row} for repeat, row in enumerate(own)]
        lines.append([kind.name, report.median(own, "resident") / memory.MIB, report.median(own, "limit") / memory.MIB,
                      report.median(own, "peak") / memory.MIB, f"{statistics.median(row['expected'] for row in own):.1%}",
                      *(f"{1 - statistics.median(row[key] / row['plain'] for row in own):+.1%}" for key in ("first", "second")),
                      f"{statistics.median(row['stalled'] for row in own):.1%}"])
    results.add("recommend", rows, work_seconds=work)
    print(f"Recommended limits and what they cost: medians of {options.repeats}")
    report.table(["program", "resident MiB", "recommended", "peak under it", "expected slowdown", f"first {work} s", f"next {work} s", "stalled"], lines)


def one(memfold, kind, quick, work):
    """Measures one program without memfold and under the recommended limit; None if no limit is recommended."""
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place, idle.running(kind(place, quick), Path(place)) as (server, process):
        server.work(process, 2)
        worked = []
        worker = threading.Thread(target=lambda: worked.append(server.work(process, work + 12)))
        worker.start()
        told = subprocess.run([memfold, "analyze", "--json", str(process.pid)], stdout=subprocess.PIPE, check=True)
        worker.join()
        plain = server.work(process, work)
    found = json.loads(told.stdout)
    advice = found["recommended"]
    if not advice:
        return None
    limit = advice["limit_bytes"]
    options = ["--limit", str(limit)]
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
        stats = Path(place) / "stats.json"
        with idle.running(kind(place, quick), Path(place), [memfold, "run", "--quiet", *options, "--stats", str(stats), "--"]) as (server, process):
            first, second = (server.work(process, work) for _ in range(2))
        told = json.loads(stats.read_text())
    return {"resident": found["bytes"], "limit": limit, "expected": advice["slowdown"], "plain": plain, "first": first, "second": second,
            "peak": told["peak_resident_bytes"], "stalled": told["stalled_seconds"] / told["wall_seconds"], "stats": told}
