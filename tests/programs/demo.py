#!/usr/bin/env python3
"""The demonstration: runs a real program plainly, then in a third of its memory, and compares the two."""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import memory
from cases import LOAD, PYTHON

MIB = memory.MIB


def run(directory, name, command, **options):
    stdout, stderr = Path(directory) / f"{name}.out", Path(directory) / f"{name}.err"
    result = memory.run([str(part) for part in command], directory, stdout=stdout, stderr=stderr, **options)
    if result.status[0]:
        sys.exit(f"{name}: ended with status {result.status[0]}\n{stderr.read_text()}")
    return result, stdout.read_text(), stderr.read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memfold", default="target/release/memfold")
    parser.add_argument("--orders", type=int, default=60_000, help="number of orders that the program loads")
    options = parser.parse_args()
    command = [PYTHON, LOAD / "python_json.py", options.orders]
    print(f"A Python script generates {options.orders} orders as JSON, parses them into dicts and lists "
          "and computes over them.")
    with tempfile.TemporaryDirectory(prefix="memfold-demo-") as directory:
        plain, answer, _ = run(directory, "plain", command)
        limit = plain.peak // 3
        stats_file = Path(directory) / "stats.json"
        folded, other, words = run(directory, "memfold",
                                   [Path(options.memfold).resolve(), "run", "--limit", limit, "--stats", stats_file, "--",
                                    *command], count_shared=True)
        stats = json.loads(stats_file.read_text())

    print(f"\n{answer}\n{'':14}{'plain':>14}{'memfold run':>14}")
    print(f"{'peak memory':14}{plain.peak / MIB:10.1f} MiB{folded.peak / MIB:10.1f} MiB   (limit {limit / MIB:.1f} MiB)")
    print(f"{'wall time':14}{plain.wall:12.2f} s{folded.wall:12.2f} s")
    print(f"{'CPU time':14}{plain.cpu:12.2f} s{folded.cpu:12.2f} s")
    print(f"{'answer':14}{'':>14}{'the same' if answer == other else 'DIFFERENT':>14}")
    print(f"\n{stats['pages_compressed']} pages were compressed, "
          f"{stats['pages_faulted']} were restored when touched.")
    print(words, end="")
    over, _ = memory.excess(folded.samples, limit)
    if answer != other:
        sys.exit(f"FAILED: the answers differ\n{other}")
    if over:
        sys.exit(f"FAILED: the peak exceeded the limit and its tolerance by {over / MIB:.1f} MiB")
    if not stats["pages_compressed"]:
        sys.exit("FAILED: nothing was compressed")


if __name__ == "__main__":
    memory.take_charge()
    main()
