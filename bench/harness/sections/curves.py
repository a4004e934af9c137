"""The curves: how much longer programs take with less and less of the memory that they use.

Each program of tests/programs runs plainly, then under `memfold run` with 100, 80, 60, 50 and 40 percent of its
plain peak. Each cell is the median of the repeats, divided by the plain run's; outputs are compared. A run that
takes longer than the time allowed has no figure.
"""

import math
import tempfile
from pathlib import Path

import cases
import memory
import report
import run as programs

SHARES = [100, 80, 60, 50, 40]
# One of each kind; the others of tests/programs are variants of these.
PROGRAMS = ["g++", "make-j2", "python-numpy", "node", "java-default", "python-json", "sort", "redis", "sqlite"]


def measure(binary, case, size, repeats, place, timeout):
    """Rows of one case: one for each share and repeat."""
    attempt = programs.Attempt(case, size, Path(place))
    right = attempt.run("plain")
    if right.status[1] or right.status[0] not in (0, 7):
        raise programs.Failure(f"the plain run ended with {right.status}")
    peak, rows = right.peak, []
    for repeat in range(repeats):
        # Beside the others, since the machine may be slower for a while.
        plain = attempt.run("plain")
        rows.append({"program": case.name, "share": None, "repeat": repeat, "wall": plain.wall, "cpu": plain.cpu,
                     "peak_bytes": plain.peak})
        for share in SHARES:
            limit = peak * share // 100 // 4096 * 4096
            if any(row["share"] == share and row["wall"] is None for row in rows):
                continue
            done = attempt.run("folded", (binary, "run", "-q", "--limit", limit, "--"), count_shared=True, period=0.01,
                               timeout=timeout)
            same = (done.status, done.stdout, done.files) == (right.status, right.stdout, right.files)
            if not done.timed_out and not same:
                raise programs.Failure(f"another result with {share} %: {programs.tail(done)}")
            over, _ = memory.excess(done.samples, limit)
            rows.append({"program": case.name, "share": share, "repeat": repeat, "limit_bytes": limit,
                         "wall": None if done.timed_out else done.wall, "cpu": done.cpu, "peak_bytes": done.peak,
                         "over_bytes": over})
            report.progress(f"{case.name:15} {share:3} %  {report.shown(rows[-1]['wall'])} s"
                            + (f", {over >> 20} MiB over the tolerance" if over else ""))
    return rows


def section(binary, results, options):
    """Runs the section and prints its table."""
    rows, lines = [], []
    for case in cases.CASES:
        if case.name not in (options.programs or PROGRAMS):
            continue
        if missing := case.missing():
            report.progress(f"{case.name}: left out ({missing} is missing)")
            continue
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
            rows += measure(binary, case, case.small if options.quick else case.big, options.repeats, place, options.timeout)
    results.add("curves", rows, timeout_seconds=options.timeout)
    for name in dict.fromkeys(row["program"] for row in rows):
        mine = [row for row in rows if row["program"] == name]

        def of(share, key):
            return report.median([row for row in mine if row["share"] == share], key)

        plain = of(None, "wall")
        times = [of(share, "wall") for share in SHARES]
        lines.append([name, max(row["peak_bytes"] for row in mine if row["share"] is None) / memory.MIB, plain,
                      *(time / plain if time else f"> {options.timeout / plain:.0f}" for time in times)])
    means = []
    for column in range(3, 3 + len(SHARES)):
        known = [line[column] for line in lines if not isinstance(line[column], str)]
        means.append(math.prod(known) ** (1 / len(known)) if known else None)
    print("The curves: time with this share of the plain peak / plain time; same results checked")
    report.table(["program", "peak MiB", "plain s", *(f"{share} %" for share in SHARES)],
                 [*lines, ["geometric mean of what ended", None, None, *means]])
