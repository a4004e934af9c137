"""The real programs of tests/programs under every peer, all with the same total. If zram cannot keep a
program within it, the least total with which the program completed is shown, and memfold is also measured
with that.
"""

import tempfile
from pathlib import Path

import cases
import memory
import pages
import peers
import report
import run as programs

MIB = memory.MIB

# memfold with the total that zram needed, if that exceeded the limit.
WITH_MORE = "memfold, zram's total"


def measure(case, size, others, repeats, place, zstd, timeout):
    """Rows of one case: one for each peer and repeat."""
    attempt = programs.Attempt(case, size, Path(place))
    plain = attempt.run("plain")
    if plain.status[1] or plain.status[0] not in (0, 7):
        raise programs.Failure(f"the plain run ended with {plain.status}")
    ratio = attempt.measure_ratio(plain.peak, zstd)[0]
    limit = int(plain.peak * max(0.4, 0.12 + 1.05 / ratio)) // 4096 * 4096
    rows = []

    def once(peer, total, label, repeat):
        row = {"program": case.name, "peer": label, "repeat": repeat, "limit_bytes": total, "ratio": ratio,
               "plain_peak_bytes": plain.peak}
        try:
            with peer.ready():
                result = attempt.run("peer", runner=lambda command, directory, **options: peer.run(
                    command, total, directory, load=case.name, **options), period=0.005, timeout=timeout)
        except peers.NotPossible as why:
            rows.append({**row, "skipped": str(why)})
            return
        same = (result.status, result.stdout, result.files) == (plain.status, plain.stdout, plain.files)
        # A different output under a peer counts as unfinished: either the program was killed, or memfold has
        # a bug.
        row.update(wall=result.wall if same else None, cpu=result.cpu if same else None, peak_bytes=result.peak,
                   same=same, status=result.status, unsettled=getattr(result, "unsettled", False))
        if isinstance(peer, peers.Memfold):
            row["over_bytes"] = memory.excess(result.samples, total)[0]
            row["stats"] = result.stats
        rows.append(row)
        report.progress(f"{case.name:15} {label:22} {report.shown(row['wall'])} s, {row['peak_bytes'] / MIB:.1f} MiB")

    for repeat in range(repeats):
        for peer in others:
            once(peer, limit, peer.name, repeat)
        loose = [row for row in rows if row["repeat"] == repeat and row.get("unsettled") and row["wall"] is not None]
        memfold = next((peer for peer in others if peer.name == "memfold"), None)
        if loose and memfold:
            # If zram needs more, memfold also runs with the total of the fastest zram run.
            quickest = min(loose, key=lambda row: row["wall"])
            once(memfold, quickest["peak_bytes"] // 4096 * 4096, WITH_MORE, repeat)
    return rows


def section(binary, results, options):
    """Runs the section and prints its table."""
    zstd, rows = pages.Zstd(), []
    zrams = [peers.Zram(algorithm, cluster) for algorithm in ("lzo-rle", "lz4") for cluster in (0, 3)]
    others = [peers.Unlimited(), *zrams, *peers.memfolds(binary)]
    others = [peer for peer in others if not options.peers or any(want in peer.name for want in options.peers)]
    zrams = [peer for peer in others if peer in zrams]
    for case in cases.CASES:
        if case.only_big or case.missing() or (options.programs and case.name not in options.programs):
            continue
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
            try:
                rows += measure(case, case.small if options.quick else case.big, others, options.repeats, place, zstd, options.timeout)
            except programs.Failure as failure:
                report.progress(f"{case.name}: {failure}")
    results.add("programs", rows)

    lines = []
    for name in dict.fromkeys(row["program"] for row in rows):
        mine = [row for row in rows if row["program"] == name]

        def of(peer, what):
            return report.median([row for row in mine if row["peer"] == peer], what)

        fitting = [peer.name for peer in zrams if of(peer.name, "wall") is not None]
        best = min(fitting, key=lambda peer: of(peer, "wall"), default=None)
        did = "-" if any("skipped" in row for row in mine if row["peer"].startswith("zram")) else "does not fit"
        # The same total for both: the limit, or what zram needed.
        equal = WITH_MORE if of(WITH_MORE, "wall") is not None else "memfold"
        ratio = of(equal, "wall") / of(best, "wall") if best and of(equal, "wall") else None
        lines.append([name, f"{mine[0]['limit_bytes'] / MIB:.0f}", mine[0]["ratio"], of("no limit", "wall"),
                      of("memfold", "wall"), of("memfold", "cpu"), of("memfold lz4,zstd:1", "wall"), of("memfold lz4,zstd:1", "cpu"),
                      of(best, "wall") if best else did, of(best, "cpu") if best else None, best[5:] if best else None,
                      of(best, "peak_bytes") / MIB if best else None,
                      of(WITH_MORE, "wall"), ratio])
    print("Real programs, same output checked; seconds (wall, CPU). The ratio is at equal totals: the limit, or what zram took")
    report.table(["program", "limit MiB", "r", "plain", "memfold", "cpu", "lz4,zstd:1", "cpu", "best zram", "cpu", "which", "its MiB",
                  "memfold there", "memfold/zram"], lines)
