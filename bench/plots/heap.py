#!/usr/bin/env python3
"""Draws the figures of the heap's benchmarks from rows that `bench-heap --out FILE` has written.

    bench/plots/heap.py FILE... --to DIRECTORY

The paper's figures 8.1 (resident blocks), 8.2 (sizes of blocks) and 8.3 (codecs), one of each for every tree,
and the misses of the policies. A cross at the top is a setting that was given up, or failed.
"""

import argparse
import json
import sys
from pathlib import Path

import svg

MIB = 1 << 20
OPERATIONS = ("scan", "open", "browse", "delete")


def figure(row, name):
    """A figure of a row, in milliseconds or MiB; None if the run did not get that far."""
    if name == "memory":
        return row["memory"]["anonymous"] / MIB if "memory" in row else None
    return row[name]["cpu"] * 1000 if name in row else None


def axis(what, values):
    return svg.linear(max(values)) if what == "memory" else svg.logarithmic(min(values), max(values))


def panels(drawing, rows, malloc, names, values, label):
    """One panel for each operation and for memory; `names` are (name, colour, selector of rows), `values` are
    the values on the horizontal axis.
    """
    for what in (*OPERATIONS, "memory"):
        base = figure(malloc, what)
        known = [figure(row, what) for row in rows if figure(row, what)] + [base]
        up = axis(what, known)
        title = "memory after the scan, MiB" if what == "memory" else f"{what}, ms of CPU"
        place = drawing.panel(title, svg.Steps(values), up, label)
        drawing.path([place(values[0], base), place(values[-1], base)], "malloc")
        for name, colour, wanted in names:
            points = sorted((wanted(row), figure(row, what), row.get("failed")) for row in rows if wanted(row) is not None)
            drawing.path([place(at, value) for at, value, _ in points if value] or [place(values[0], base)], "line", stroke=colour)
            for at, value, failed in points:
                if value:
                    drawing.dot(*place(at, value), colour, f"{name}, {at:g}: {value:.4g}; malloc {base:.4g}")
                else:
                    drawing.cross(place(at, base)[0], place(at, up.ticks[-1])[1] + 6, colour, f"{name}, {at:g}: {failed}")


def resident(tree, rows, malloc, to):
    """Figure 8.1."""

    def across(row):
        wanted = (row["settings"].get("block_size"), row["settings"].get("codec")) == (32 << 10, "zstd:1")
        return row["settings"].get("resident") if wanted else None

    values = sorted({across(row) for row in rows} - {None})
    if len(values) < 2:
        return
    drawing = svg.Drawing(f"Resident blocks: {tree}, blocks of 32 KiB, zstd:1", 5, 1)
    panels(drawing, rows, malloc, [("heap", svg.COLOURS[0], across)], values, "resident blocks")
    drawing.keys([("heap", svg.COLOURS[0]), ("malloc", "malloc")])
    drawing.save(to / f"heap-8-1-resident-{tree}.svg")


def blocks(tree, rows, malloc, to):
    """Figure 8.2."""

    def across(count):
        def value(row):
            settings = row["settings"]
            wanted = settings.get("codec") == "zstd:1" and settings.get("resident") == count
            return settings["block_size"] / 1024 if wanted else None
        return value

    names = [("10 resident", svg.COLOURS[0], across(10)), ("the heap's own number", svg.COLOURS[1], across(None))]
    values = sorted({wanted(row) for _, _, wanted in names for row in rows} - {None})
    if len(values) < 2:
        return
    drawing = svg.Drawing(f"Sizes of blocks: {tree}, zstd:1", 5, 1)
    panels(drawing, rows, malloc, names, values, "KiB of a block")
    drawing.keys([*((name, colour) for name, colour, _ in names), ("malloc", "malloc")])
    drawing.save(to / f"heap-8-2-blocks-{tree}.svg")


def codecs(tree, rows, malloc, to):
    """Figure 8.3: a line for each codec."""
    mine = [row for row in rows if (row["settings"].get("resident"), row["settings"].get("block_size")) == (100, 32 << 10)]
    if len(mine) < 3:
        return
    mine.sort(key=lambda row: -(figure(row, "memory") or 1e9))
    place_of = {row["settings"]["codec"]: number for number, row in enumerate(mine)}
    height = 15 * len(mine)
    drawing = svg.Drawing(f"Codecs: {tree}, 100 resident blocks of 32 KiB", 5, 1, width=180, height=height, left=110)
    for what in (*OPERATIONS, "memory"):
        base = figure(malloc, what)
        known = [figure(row, what) for row in mine if figure(row, what)] + [base]
        across = axis(what, known)
        up = svg.Steps(place_of)
        title = "memory, MiB" if what == "memory" else f"{what}, ms of CPU"
        place = drawing.panel(title, across, up, "")
        drawing.path([place(base, next(iter(place_of))), place(base, mine[-1]["settings"]["codec"])], "malloc")
        for row in mine:
            name, value = row["settings"]["codec"], figure(row, what)
            if value:
                drawing.dot(*place(value, name), svg.COLOURS[0], f"{name}: {value:.4g}; malloc {base:.4g}")
            else:
                x, y = place(across.ticks[-1], name)
                drawing.cross(x - 6, y, svg.COLOURS[1], f"{name}: {row.get('failed')}")
    drawing.keys([("malloc", "malloc")])
    drawing.save(to / f"heap-8-3-codecs-{tree}.svg")


def policies(rows, to):
    """Misses, one panel for each phase of each trace. A setting without misses has no mark."""
    phases = sorted(dict.fromkeys((row["trace"], row["phase"]) for row in rows), key=lambda phase: phase[0])
    names = list(dict.fromkeys(row["policy"] for row in rows))
    shares = sorted({row["share"] for row in rows})
    drawing = svg.Drawing("Misses of the policies, of a thousand uses", 4, -(-len(phases) // 4))
    for trace, phase in phases:
        mine = [row for row in rows if (row["trace"], row["phase"]) == (trace, phase)]
        missed = {(row["policy"], row["share"]): 1000 * row["faults"] / row["uses"] for row in mine if row["faults"]}
        up = svg.logarithmic(min(missed.values(), default=1), max(missed.values(), default=1))
        place = drawing.panel(trace if phase == "all" else f"{trace}: {phase}", svg.Steps(shares), up, "resident, % of blocks")
        for name, colour in zip(names, svg.COLOURS):
            points = [(share, missed[name, share]) for share in shares if (name, share) in missed]
            if points:
                drawing.path([place(*point) for point in points], "line", stroke=colour)
            for share, misses in points:
                drawing.dot(*place(share, misses), colour, f"{name}, {share} %: {misses:.4g}")
    drawing.keys(list(zip(names, svg.COLOURS)))
    drawing.save(to / "heap-policies.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="rows")
    parser.add_argument("--to", type=Path, required=True, help="directory for the drawings")
    options = parser.parse_args()
    sections = {}
    for file in options.files:
        data = json.loads(file.read_text())
        if data.get("version") != 1:
            sys.exit(f"{file}: these are not rows of a benchmark")
        for name, section in data["sections"].items():
            sections.setdefault(name, []).extend(section["rows"])
    options.to.mkdir(parents=True, exist_ok=True)
    rows = sections.get("figures", [])
    for tree in dict.fromkeys(row["tree"] for row in rows):
        mine = [row for row in rows if row["tree"] == tree]
        malloc = next((row for row in mine if row["kind"] == "malloc"), None)
        if malloc is None:
            sys.exit(f"no row of malloc over {tree}")
        heap = [row for row in mine if row["kind"] == "heap"]
        for draw in (resident, blocks, codecs):
            draw(tree, heap, malloc, options.to)
    if "policies" in sections:
        policies(sections["policies"], options.to)


if __name__ == "__main__":
    main()
