"""How long a fault takes, measured in the faulting thread.

Memory that was evicted is touched at single random pages, after other memory was released, so that no room
has to be made. The load `touch` reports touches of more than 2 us separately; those were faults.
"""

import tempfile

import memory
import peers
import report

from . import synthetic

MIB = memory.MIB
TOTAL, AMOUNT, ROOM, TOUCHES = 620 * MIB, 512 * MIB, 800 * MIB, 20_000


def section(binary, results, options, binaries, files):
    """Percentiles of a few runs, with the fast codec alone and with the default."""
    rows, lines = [], []
    ways = [("lz4 alone", ["--codec", "lz4"]), ("default", [])]
    with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
        for repeat in range(1 if options.quick else 5):
            for name, more in ways:
                peer = peers.Memfold(binary, *more)
                command = synthetic.touch(binaries, files, "uniform", TOUCHES, 1, AMOUNT) + ["--room", str(ROOM)]
                rows.append({"way": name, "repeat": repeat, **synthetic.one(peer, command, TOTAL, place)})
                results.add("faults", rows)
    for name, _ in ways:
        mine = [row["touch"]["slow_us"] for row in rows if row["way"] == name and "touch" in row]
        lines.append([name, *(report.median(mine, key) for key in ("p50", "p99", "count"))])
    print(f"Faults of one page, us, in the faulting thread ({TOUCHES} touches, with room)")
    report.table(["way", "p50", "p99", "faults"], lines)
