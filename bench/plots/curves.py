#!/usr/bin/env python3
"""Draws how much longer programs take with less memory, from files that `bench/run --sections curves --out FILE`
wrote.

    bench/plots/curves.py NAME=FILE... --to docs/curves.svg

One panel for each file, with its name as the title. A cross at the top is a run that took longer than the time
allowed.
"""

import argparse
import json
import statistics

import svg

SHARES = [100, 80, 60, 50, 40]
TICKS = [1, 1.5, 2, 3, 5, 10, 20, 40]
COLOURS = (*svg.COLOURS, "#c2589f", "#1c2530")


def curves(path):
    """For each program and share of its peak, the time divided by the plain time; `None` if no run ended."""
    with open(path) as file:
        rows = json.load(file)["sections"]["curves"]["rows"]

    def median(program, share):
        walls = [row["wall"] for row in rows if (row["program"], row["share"]) == (program, share)]
        return None if not walls or None in walls else statistics.median(walls)

    result = {}
    for program in dict.fromkeys(row["program"] for row in rows):
        plain = median(program, None)
        times = {share: median(program, share) for share in SHARES}
        result[program] = {share: time and time / plain for share, time in times.items()}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--to", required=True, help="the drawing")
    options = parser.parse_args()
    panels = {}
    for word in options.files:
        name, found, path = word.partition("=")
        if not found:
            parser.error(f"'{word}' is not NAME=FILE")
        panels[name] = curves(path)
    programs = list(dict.fromkeys(program for each in panels.values() for program in each))
    colours = {program: COLOURS[number % len(COLOURS)] for number, program in enumerate(programs)}

    drawing = svg.Drawing("Time under memfold / plain time, by the share of its memory that a program gets", len(panels), 1,
                          width=360, height=230, top=104)
    drawing.keys(colours.items())
    across = svg.Steps(SHARES)
    across.name = lambda share: f"{share} %"
    for name, programs in panels.items():
        up = svg.Axis(TICKS, lambda times: f"{times:g} ×", low=0.8, log=True)
        place = drawing.panel(name, across, up, "limit, as a share of the plain peak")
        for program, times in programs.items():
            points = [place(share, min(max(time, 0.8), TICKS[-1])) for share, time in times.items() if time]
            drawing.path(points, "line", stroke=colours[program])
            for share, time in times.items():
                if time and time <= TICKS[-1]:
                    drawing.dot(*place(share, max(time, 0.8)), colours[program], f"{program}, {share} %: {time:.2f} times as long")
                else:
                    words = f"{time:.0f} times as long" if time else "did not end in the time allowed"
                    drawing.cross(*place(share, TICKS[-1]), colours[program], f"{program}, {share} %: {words}")
    drawing.save(options.to)


if __name__ == "__main__":
    main()
