"""ncdu's four operations with the memory of the compressed heap: in the heap, and with malloc under zram and
`memfold run`.

The heap's version runs first, without an external limit. The malloc version then gets the same total, either
the heap's peak or its memory after the scan, as requested. `bench-heap once` performs the operations and
prints the figures of each; every run must arrive at the same sums.
"""

import json
import tempfile
from pathlib import Path

import memory
import peers
import report

MIB = memory.MIB
OPERATIONS = ("scan", "open", "browse", "delete")
# The figures on which all runs of one tree must agree.
FACTS = ("nodes", "node_bytes", "opened", "drawn", "sum")


class Failed(Exception):
    """A run that had to complete has failed, or has read another tree."""


def one(peer, command, total, place, timeout):
    """One run; its row of figures, with the output of `bench-heap once` if it completed."""
    place = Path(place)
    result = peer.run(command, total, place, load=tuple(command), stdout=place / "out", stderr=place / "err", timeout=timeout)
    row = {"peer": peer.name, "total_bytes": total, "status": result.status[0], "run_wall": result.wall, "run_cpu": result.cpu,
           "peak_bytes": result.peak, "timed_out": result.timed_out, "unsettled": getattr(result, "unsettled", False),
           "cgroup_limit_bytes": getattr(result, "cgroup_limit", None)}
    if result.status[0] == 0:
        row["outcome"] = json.loads((place / "out").read_text().splitlines()[-1])
    else:
        row["words"] = (place / "err").read_text()[-300:]
    if isinstance(peer, peers.Memfold):
        row["over_bytes"] = memory.excess(result.samples, total)[0]
        # The command line is left out, since it contains paths of this machine.
        row["stats"] = {name: value for name, value in (result.stats or {}).items() if name != "command"}
    return row


def measure(options, tree, others, place, keep):
    """All rows of one tree."""
    timeout = options.timeout

    def command(kind):
        return [str(Path(options.bench_heap).resolve()), "once", f"--kind={kind}", "--tree", tree, "--trees", options.trees_dir]

    alone = peers.Unlimited()
    # Makes the tree if it does not exist, and reads it into the kernel's caches, charged to this process and not
    # to a cgroup.
    first = one(alone, command("malloc"), None, place, 3600)
    if "outcome" not in first:
        raise Failed(f"bench-heap over {tree}: {first['words']}")
    facts = {name: first["outcome"][name] for name in FACTS}

    def add(row, kind, repeat):
        row.update(tree=tree, kind=kind, repeat=repeat)
        if "outcome" in row and any(row["outcome"][name] != facts[name] for name in FACTS):
            raise Failed(f"{row['peer']} over {tree}: another tree was read")
        keep(row)
        report.progress(f"{tree:8} {kind:6} {row['peer']:22} {row['run_wall']:.2f} s, {row['run_cpu']:.2f} s CPU, "
                        f"peak {row['peak_bytes'] / MIB:.1f} MiB" + ("" if "outcome" in row else ", not to its end"))
        return row

    for repeat in range(options.repeats):
        heap = add(one(alone, command("heap"), None, place, timeout), "heap", repeat)
        if "outcome" not in heap:
            raise Failed(f"the heap over {tree}: {heap.get('words')}")
        total = heap["peak_bytes"] if options.heap_total == "peak" else heap["outcome"]["whole"]
        add(one(alone, command("malloc"), None, place, timeout), "malloc", repeat)
        for peer in others:
            try:
                with peer.ready():
                    add(one(peer, command("malloc"), total // 4096 * 4096, place, timeout), "malloc", repeat)
            except peers.NotPossible as why:
                report.progress(f"skipped: {peer.name}: {why}")


def section(binary, results, options):
    """Runs the section and prints a table for each tree."""
    others = [peers.Zram(algorithm, cluster) for algorithm, cluster in (("lz4", 0), ("lz4", 3), ("zstd", 0))]
    others += [*peers.memfolds(binary), peers.SwapFile(options.tmp or "/var/tmp")]
    others = [peer for peer in others if not options.peers or any(want in peer.name for want in options.peers)]
    rows = []

    def keep(row):
        rows.append(row)
        results.add("heap", rows)

    for tree in options.trees.split(","):
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
            try:
                measure(options, tree, others, place, keep)
            except Failed as failure:
                report.progress(str(failure))
        show(tree, [row for row in rows if row["tree"] == tree])


def show(tree, rows):
    """A line for each kind of memory."""
    lines = []
    for kind, peer in dict.fromkeys((row["kind"], row["peer"]) for row in rows):
        mine = [row for row in rows if (row["kind"], row["peer"]) == (kind, peer)]
        done = [row for row in mine if "outcome" in row]
        figures = [{name: row["outcome"][name]["cpu"] * 1000 for name in OPERATIONS} for row in done]
        name = "the heap" if kind == "heap" else "malloc" if peer == "no limit" else f"malloc, {peer}"
        words = "did not end" if not done else "more memory" if any(row["unsettled"] for row in done) else ""
        peak = report.median(mine, "peak_bytes")
        lines.append([name, *(report.median(figures, operation) for operation in OPERATIONS), report.median(done, "run_wall"),
                      report.median(done, "run_cpu"), peak / MIB, words])
    print(f"{tree}: ncdu's operations with the heap's total, ms of CPU; the whole run, s; the most memory at a time")
    report.table(["", *OPERATIONS, "wall", "CPU", "peak MiB", ""], lines)
