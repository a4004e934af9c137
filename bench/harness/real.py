"""The real programs of tests/programs under every peer, all with the same total."""

import tempfile
from pathlib import Path

import cases
import memory
import pages
import peers
import report
import run as programs

MIB = memory.MIB


def measure(case, size, others, repeats, place, zstd, timeout):
    """Rows of one case: one for each peer and repeat."""
    attempt = programs.Attempt(case, size, Path(place))
    plain = attempt.run("plain")
    if plain.status[1] or plain.status[0] not in (0, 7):
        raise programs.Failure(f"the plain run ended with {plain.status}")
    ratio = attempt.measure_ratio(plain.peak, zstd)[0]
    limit = int(plain.peak * max(0.4, 0.12 + 1.05 / ratio)) // 4096 * 4096
    rows = []
    for repeat in range(repeats):
        for peer in others:
            row = {"program": case.name, "peer": peer.name, "repeat": repeat, "limit_bytes": limit, "ratio": ratio,
                   "plain_peak_bytes": plain.peak}
            try:
                with peer.ready():
                    result = attempt.run("peer", runner=lambda command, directory, **options: peer.run(
                        command, limit, directory, load=case.name, **options), period=0.005, timeout=timeout)
            except peers.NotPossible as why:
                rows.append({**row, "skipped": str(why)})
                continue
            same = (result.status, result.stdout, result.files) == (plain.status, plain.stdout, plain.files)
            # Another output under a peer counts as not finished: it was killed, or it is memfold's fault.
            row.update(wall=result.wall if same else None, cpu=result.cpu if same else None, peak_bytes=result.peak,
                       same=same, status=result.status, unsettled=getattr(result, "unsettled", False))
            if isinstance(peer, peers.Memfold):
                row["over_bytes"] = memory.excess(result.samples, limit)[0]
                row["stats"] = result.stats
            rows.append(row)
            report.progress(f"{case.name:15} {peer.name:18} {report.shown(row['wall'])} s")
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
        wall = {peer.name: report.median([row for row in mine if row["peer"] == peer.name], "wall") for peer in others}
        cpu = {peer.name: report.median([row for row in mine if row["peer"] == peer.name], "cpu") for peer in others}
        fitting = [peer for peer in zrams if wall[peer.name] is not None]
        best = min(fitting, key=lambda peer: wall[peer.name], default=None)
        did = "-" if any("skipped" in row for row in mine if row["peer"].startswith("zram")) else "does not fit"
        lines.append([name, f"{mine[0]['limit_bytes'] / MIB:.0f}", mine[0]["ratio"], wall.get("no limit"), cpu.get("no limit"),
                      wall[best.name] if best else did, cpu[best.name] if best else None, best.name[5:] if best else None,
                      wall.get("memfold"), cpu.get("memfold"), wall.get("memfold lz4,zstd:1"), cpu.get("memfold lz4,zstd:1"),
                      wall["memfold"] / wall[best.name] if best and wall.get("memfold") else None])
    print("Real programs, same output checked; seconds (wall, CPU)")
    report.table(["program", "limit MiB", "r", "plain", "cpu", "best zram", "cpu", "which", "memfold", "cpu", "lz4,zstd:1", "cpu", "memfold/zram"], lines)
