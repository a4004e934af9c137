"""Rows of figures: collected, shown as a table, kept as JSON."""

import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path


def median(rows, key):
    """Median of a figure over repeats; None if a repeat lacks it (it did not finish)."""
    values = [row.get(key) for row in rows]
    return None if not values or None in values else statistics.median(values)


def shown(value, digits=2):
    return "-" if value is None else value if isinstance(value, str) else f"{value:.{digits}f}"


def table(head, rows):
    """Prints columns as wide as needed; the first left-aligned, figures right-aligned."""
    rows = [[shown(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
    print(flush=True)


def machine():
    """The machine on which the figures were measured."""
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    total = int(open("/proc/meminfo").readline().split()[1]) * 1024
    return {"kernel": platform.release(), "cpu": model, "cpus": len(os.sched_getaffinity(0)), "memory_bytes": total,
            "load_before": os.getloadavg()[0], "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def without_places(value):
    """The same with file names instead of paths, which differ from machine to machine and carry no
    information.
    """
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_places(item) for item in value]
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def lay_out(value, depth=0):
    """JSON with a line for each row of figures."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        lines, ends = [json.dumps(item) for item in value], "[]"
    elif isinstance(value, dict) and any(isinstance(item, (dict, list)) for item in value.values()):
        lines, ends = [f"{json.dumps(name)}: {lay_out(item, depth + 1)}" for name, item in value.items()], "{}"
    else:
        return json.dumps(value)
    return ends[0] + "\n" + ",\n".join(" " * (depth + 1) + line for line in lines) + "\n" + " " * depth + ends[1]


class Results:
    """All rows of one run of the bench; written after each section, so that an interrupted run keeps its
    results.
    """

    def __init__(self, path):
        self.path, self.data = Path(path), {"version": 1, "machine": machine(), "sections": {}}

    def add(self, section, rows, **facts):
        self.data["sections"][section] = {**facts, "rows": rows}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(lay_out(without_places(self.data)) + "\n")


def progress(text):
    print(text, file=sys.stderr, flush=True)
