"""The cost of memfold for a program that never comes near its limit: CPU, memory, start-up time."""

import statistics
import tempfile
from pathlib import Path

import cases
import memory
import peers
import report
import run as programs

NAMES = ("python-json", "sort", "g++")
LARGE = ("sort",)  # its small load lasts a tenth of a second
PAIRS = 21


def section(binary, results, options):
    """Interleaved pairs, plain and under a limit of four times the peak."""
    pairs, rows, lines = 5 if options.quick else PAIRS, [], []
    memfold, plain = peers.Memfold(binary, "--quiet"), peers.Unlimited()
    for case in cases.CASES:
        if case.name not in NAMES or case.missing():
            continue
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
            attempt = programs.Attempt(case, case.big if case.name in LARGE else case.small, Path(place))
            limit = attempt.run("first").peak * 4
            for pair in range(pairs):
                # The order alternates, so that a drift of the machine affects both.
                for peer in (plain, memfold) if pair % 2 else (memfold, plain):
                    result = attempt.run("pair", runner=lambda command, directory, **more: peer.run(
                        command, limit, directory, **more))
                    rows.append({"program": case.name, "peer": peer.name, "pair": pair, "wall": result.wall,
                                 "cpu": result.cpu, "peak_bytes": result.peak})
        lines.append(line(case.name, [row for row in rows if row["program"] == case.name], pairs))
        report.progress(f"{case.name}: {lines[-1][3]} more CPU")
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
        for pair in range(pairs):
            for peer in (plain, memfold):
                result = peer.run(["/bin/true"], 1 << 30, place, stdout=Path(place) / "out", stderr=Path(place) / "err")
                rows.append({"program": "true", "peer": peer.name, "pair": pair, "wall": result.wall, "cpu": result.cpu,
                             "peak_bytes": result.peak})
    lines.append(line("true", rows[-2 * pairs:], pairs))
    results.add("no_pressure", rows, pairs=pairs)
    print(f"No pressure: medians of {pairs} interleaved pairs")
    report.table(["program", "plain cpu s", "memfold cpu s", "more cpu", "more wall ms", "more memory MiB"], lines)


def line(name, rows, pairs):
    """Medians of the pairs' differences."""
    of = {(row["peer"], row["pair"]): row for row in rows}

    def difference(key):
        return statistics.median(of["memfold", pair][key] - of["no limit", pair][key] for pair in range(pairs))

    plain = statistics.median(of["no limit", pair]["cpu"] for pair in range(pairs))
    more = statistics.median(of["memfold", pair]["cpu"] / max(of["no limit", pair]["cpu"], 1e-4) for pair in range(pairs)) - 1
    return [name, f"{plain:.3f}", f"{plain + difference('cpu'):.3f}", f"{more:+.2%}" if name != "true" else "-",
            f"{difference('wall') * 1000:+.1f}", f"{difference('peak_bytes') / memory.MIB:+.1f}"]
