#!/usr/bin/env python3
"""Draws every insertion's time from the plots.json that `bench-collections plots --out DIR` wrote.

    bench/plots/insertions.py DIR

Writes SVG files and a self-contained index.html to DIR. Operations are counted in the cells of a grid. A cell
has the colour of the class to which most of its operations belong; the more operations it has, the stronger
the colour. Cells of rare classes are drawn as single marks.
"""

import argparse
import html
import json
import math
import sys
from pathlib import Path

import svg

BLUE, RED, GREEN, AMBER, VIOLET, TEAL, GREY = svg.COLOURS
# The classes of events during an operation: the name in the data, the name in the drawing, the colour.
CLASSES = {
    "nothing else": ("nothing else", BLUE),
    "allocated": ("memory allocated", AMBER),
    "first touch of memory": ("fresh memory touched", TEAL),
    "packed": ("leaves packed (reap)", RED),
    "brought back": ("block restored", GREEN),
    "compressed": ("block compressed", VIOLET),
    "interrupted": ("other threads ran", GREY),
}
# An operation of a rare class counts this many times when a cell's colour is chosen.
RARE = 4
# Up to this many marks of a class are drawn one by one.
MARKS = 4000
PEERS = ("slab list", "slab list, few frames", "absl::btree_set", "BTreeSet", "indexset", "AVL tree", "std::set (red-black)",
         "crossbeam skip list")
COLOUR = dict(zip(PEERS, (RED, AMBER, BLUE, GREEN, VIOLET, TEAL, GREY, "#c2589f")))
MIB = 1 << 20


def ns_name(ns):
    """A time, formatted for an axis or a text."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.3g} ns"


def count_name(count):
    return f"{count / 1e6:g} M" if count >= 1e6 else f"{count / 1e3:g} k" if count >= 1e3 else f"{count:g}"


def times():
    return svg.logarithmic(10, 1e8, ns_name)


def rgb(colour):
    return tuple(int(colour[at:at + 2], 16) for at in (1, 3, 5))


LEVELS = 12


def palette():
    colours = [(0, 0, 0, 0)]
    for name, (_, colour) in CLASSES.items():
        least = 0.4 if name == "nothing else" else 0.6
        for level in range(LEVELS):
            colours.append((*rgb(colour), round(255 * (least + (1 - least) * level / (LEVELS - 1)))))
    return colours


class Picture:
    """A grid of cells as pixels, and the cells that are drawn as marks."""

    def __init__(self, grid, operations, coarser):
        self.columns, self.rows, self.coarser = grid["columns"] // coarser, grid["rows"] // coarser, coarser
        kinds = {kind["name"]: self.cells(grid, kind["cells"]) for kind in operations["classes"]}
        self.marks = {name: cells for name, cells in kinds.items() if name != "nothing else" and 0 < len(cells) <= MARKS / coarser ** 2
                      and sum(cells.values()) < operations["count"] / 100}
        dense = {name: cells for name, cells in kinds.items() if name not in self.marks}
        most = max((count for cells in dense.values() for count in cells.values()), default=1)
        names, best = list(CLASSES), {}
        for name, cells in dense.items():
            for cell, count in cells.items():
                weight = count * (1 if name == "nothing else" else RARE)
                all_count, best_weight, _ = best.get(cell, (0, 0, None))
                best[cell] = (all_count + count, *max((best_weight, best.get(cell, (0, 0, 0))[2]), (weight, names.index(name))))
        self.pixels = bytearray(self.columns * self.rows)
        for (column, row), (count, _, kind) in best.items():
            level = round((LEVELS - 1) * math.log(count) / max(math.log(most), 1))
            self.pixels[(self.rows - 1 - row) * self.columns + column] = 1 + kind * LEVELS + min(level, LEVELS - 1)

    def cells(self, grid, flat):
        cells = {}
        for cell, count in zip(flat[::2], flat[1::2]):
            place = (cell // grid["rows"] // self.coarser, cell % grid["rows"] // self.coarser)
            cells[place] = cells.get(place, 0) + count
        return cells

    def draw(self, drawing, corner, size, colours):
        (x, y), (width, height) = corner, size
        drawing.image(x, y, width, height, svg.png(self.pixels, self.columns, colours))
        mark = 2.6 if self.coarser == 1 else 2.2
        for name, cells in self.marks.items():
            across, up = width / self.columns, height / self.rows
            path = "".join(f"M{x + (column + 0.5) * across - mark / 2:.1f} {y + height - (row + 0.5) * up - mark / 2:.1f}h{mark}v{mark}h-{mark}z"
                           for column, row in sorted(cells))
            drawing.shape(path, CLASSES[name][1])


def density(drawing, data, operations, title, label, coarser, colours, removal=False):
    """One panel: the time of an operation by the number of elements."""
    count, all_count = operations["count"], data["elements"]
    low, high = (all_count, all_count - count) if removal else (0, all_count)
    ticks = [tick for tick in svg.linear(all_count, None).ticks if min(low, high) <= tick <= max(low, high)]
    if drawing.width < 400:
        ticks = ticks[::2]
    across, up = svg.Axis(ticks, count_name, low, high), times()
    place = drawing.panel(title, across, up, label)
    (left, top), (right, bottom) = place(low, up.high), place(high, up.low)
    Picture(data["grid"], operations, coarser).draw(drawing, (left, top), (right - left, bottom - top), colours)
    pieces = operations["mean"]
    points = [place(low + (high - low) * (at + 0.5) / len(pieces), max(mean, 10)) for at, mean in enumerate(pieces)]
    drawing.mean(points)


def class_keys(runs, kinds=("insert",)):
    seen = [name for name in CLASSES if any(part["count"] for run in runs for kind in kinds for part in run[kind]["classes"] if part["name"] == name)]
    return [CLASSES[name] for name in seen]


def slab_lists(data, runs, colours):
    orders = ("random", "sequential")
    mine = [run for run in data["runs"] if run["peer"].startswith("slab list")]
    drawing = svg.Drawing(f"A slab list: every one of {data['elements']:,} insertions", 2, 3, width=560, height=270, left=64, top=94, right=44)
    drawing.keys([*class_keys(mine, ("insert", "remove")), ("mean of each hundredth, without grey ones", "mean")], square=True)
    few = f"frames for {data['frames']} blocks"
    for peer, where in (("slab list", "all resident"), ("slab list, few frames", few)):
        for order in orders:
            words = {"random": "in random order", "sequential": "in sequence"}[order]
            if (peer, order) in runs:
                density(drawing, data, runs[peer, order]["insert"], f"insertions {words}, {where}", "elements in the list", 1, colours)
    for peer, where in (("slab list", "all resident"), ("slab list, few frames", few)):
        if (peer, "random") in runs:
            density(drawing, data, runs[peer, "random"]["remove"], f"removals, {where}", "elements in the list", 1, colours, removal=True)
    return drawing


def peers(data, runs, order, colours):
    mine = [run for run in data["runs"] if run["order"] == order]
    words = {"random": "in random order", "sequential": "in sequence"}[order]
    drawing = svg.Drawing(f"Slab lists and others: every one of {data['elements']:,} insertions {words}", 4, 2, width=290, height=220, left=56, top=94, right=36)
    drawing.keys([*class_keys(mine), ("mean of each hundredth, without grey ones", "mean")], square=True)
    for run in mine:
        density(drawing, data, run["insert"], run["peer"], "elements", 2, colours)
    return drawing


def curves(drawing, lines, title, across, up, label):
    place = drawing.panel(title, across, up, label)
    for name, points in lines:
        if points:
            drawing.path([place(*point) for point in points], "line", stroke=COLOUR[name])
    return place


def memory(data, runs):
    drawing = svg.Drawing("Memory during insertions, and during removals of half of the elements", 2, 2, width=560, height=270, left=64, top=94, right=44)
    drawing.keys([(name, COLOUR[name]) for name in PEERS if (name, "random") in runs])
    elements = data["elements"]

    def mib(value):
        return f"{value:g} MiB"

    for order, words in (("random", "in random order"), ("sequential", "in sequence")):
        mine = {name: runs[name, order]["samples"] for name in PEERS if (name, order) in runs}
        most = max(row[2] for rows in mine.values() for row in rows) / MIB
        place = curves(drawing, [(name, [(row[0], row[2] / MIB) for row in rows]) for name, rows in mine.items()],
                       f"elements {words}: over operations", svg.linear(1.5 * elements, count_name), svg.linear(most, mib),
                       "operations: insertions, then removals")
        drawing.path([place(elements, 0), place(elements, most)], "malloc")
    mine = {name: runs[name, "random"]["samples"] for name in PEERS if (name, "random") in runs}
    first, last = min(rows[2][1] for rows in mine.values()), max(rows[-1][1] for rows in mine.values())
    most = max(row[2] for rows in mine.values() for row in rows) / MIB
    seconds = svg.Axis([10.0 ** power for power in range(math.ceil(math.log10(first)), math.floor(math.log10(last)) + 1)],
                   lambda tick: ns_name(tick * 1e9), first, last, log=True)
    curves(drawing, [(name, [(row[1], row[2] / MIB) for row in rows if row[1] >= first]) for name, rows in mine.items()],
           "in random order: over the time of operations", seconds, svg.linear(most, mib), "time, logarithmic")
    cold = runs.get(("slab list, few frames", "random"))
    if cold:
        rows, words = cold["samples"], ("frames", "compressed blocks", "tables")
        most = max(sum(row[3:6]) for row in rows) / MIB
        # Room for the legend.
        top = svg.linear(1.15 * most, mib)
        place = drawing.panel("slab list, few frames, random order: the heap's memory", svg.linear(1.5 * elements, count_name), top,
                              "operations: insertions, then removals")
        base = [0.0] * len(rows)
        for number, colour in enumerate((BLUE, VIOLET, AMBER)):
            upper = [below + row[3 + number] / MIB for below, row in zip(base, rows)]
            there = [place(row[0], value) for row, value in zip(rows, upper)]
            back = [place(row[0], value) for row, value in zip(rows, base)][::-1]
            drawing.shape("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in there + back) + "z", colour)
            x, y = place(rows[0][0], top.high)
            drawing.shape(f"M{x + 12 + 150 * number:.1f} {y + 4:.1f}h10v10h-10z", colour)
            drawing.text(x + 27 + 150 * number, y + 13, words[number])
            base = upper
        drawing.path([place(elements, 0), place(elements, most)], "malloc")
    return drawing


def latency(data, runs):
    drawing = svg.Drawing("The times of slow operations", 2, 2, width=560, height=270, left=64, top=94, right=44)
    drawing.keys([(name, COLOUR[name]) for name in PEERS if (name, "random") in runs])
    for kind, words in (("insert", "insertions"), ("remove", "removals")):
        for order, how in (("random", "in random order"), ("sequential", "of elements in sequence")):
            mine = [(name, runs[name, order][kind]) for name in PEERS if (name, order) in runs]
            count = max(operations["count"] for _, operations in mine)
            fractions = [10.0 ** -power for power in range(math.floor(math.log10(count)) + 1)]
            across = svg.Axis(fractions, lambda tick: "all" if tick == 1 else f"1 of {count_name(round(1 / tick))}", 1, 1 / count, log=True)
            curves(drawing, [(name, [(fraction, max(ns, 10)) for fraction, ns in operations["distribution"] if fraction >= 1 / count]) for name, operations in mine],
                   f"{words} {how}", across, times(), "operations that take at least this long")
    return drawing


def at_fraction(operations, fraction):
    return min(operations["distribution"], key=lambda row: abs(math.log(row[0] / fraction)))[1]


def cell(value, kind="td"):
    return f"<{kind}>{html.escape(str(value))}</{kind}>"


def table(head, rows):
    lines = ["<div class=\"wide\"><table>", "<tr>" + "".join(cell(name, "th") for name in head) + "</tr>"]
    lines += ["<tr>" + cell(row[0], "th") + "".join(cell(value) for value in row[1:]) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table></div>"])


def mean_alone(operations):
    """The mean time of the operations during which no other thread ran."""
    alone = [part for part in operations["classes"] if part["name"] != "interrupted"]
    return sum(part["seconds"] for part in alone) * 1e9 / max(sum(part["count"] for part in alone), 1)


def latencies(data, runs, kind):
    rows = []
    for (name, order), run in runs.items():
        operations = run[kind]
        full = next(row for row in run["samples"] if row[0] == data["elements"])
        rows.append((f"{name}, {order}", ns_name(mean_alone(operations)),
                     *(ns_name(at_fraction(operations, fraction)) for fraction in (0.5, 0.01, 0.001, 0.0001)),
                     ns_name(operations["distribution"][-1][1]),
                     f"{(full if kind == 'insert' else run['samples'][-1])[2] / (data['elements'] - (0 if kind == 'insert' else operations['count'])):.1f}"))
    return table(("", "mean, uninterrupted", "median", "99 %", "99.9 %", "99.99 %", "longest", "bytes per element after"), rows)


def happenings(runs):
    rows = []
    for (name, order), run in runs.items():
        if name.startswith("slab list"):
            for kind, words in (("insert", "insertions"), ("remove", "removals")):
                for part in run[kind]["classes"]:
                    if part["count"]:
                        rows.append((f"{name}, {order}: {words}", CLASSES[part["name"]][0], f"{part['count']:,}",
                                     f"{100 * part['seconds'] / run[kind]['seconds']:.1f} %", ns_name(part["seconds"] * 1e9 / part["count"]),
                                     ns_name(part["most_ns"])))
    return table(("", "event", "operations", "share of time", "mean", "longest"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="the directory with plots.json")
    directory = parser.parse_args().directory
    data = json.loads((directory / "plots.json").read_text())
    if data.get("version") != 1:
        sys.exit(f"{directory}: plots.json is not one of bench-collections")
    runs = {(run["peer"], run["order"]): run for run in data["runs"]}
    colours = palette()
    drawings = {"slablist": slab_lists(data, runs, colours), "peers-random": peers(data, runs, "random", colours),
                "peers-sequential": peers(data, runs, "sequential", colours), "memory": memory(data, runs), "latency": latency(data, runs)}
    page = (Path(__file__).parent / "insertions.html").read_text()
    for name, drawing in drawings.items():
        drawing.save(directory / f"{name}.svg")
        page = page.replace(f"@{name}@", (directory / f"{name}.svg").read_text())
    facts = {"elements": f"{data['elements']:,}", "frames": data["frames"], "block": f"{data['frame_bytes'] >> 10} KiB",
             "clock": ns_name(data["clock_ns"]), "machine": html.escape(data["machine"]), "load": data["load"],
             "insertions": latencies(data, runs, "insert"), "removals": latencies(data, runs, "remove"), "happenings": happenings(runs)}
    for name, value in facts.items():
        page = page.replace(f"@{name}@", str(value))
    (directory / "index.html").write_text(page)
    print(f"plots: {directory / 'index.html'}, {len(drawings)} SVG files beside it")


if __name__ == "__main__":
    main()
