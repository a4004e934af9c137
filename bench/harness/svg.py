"""Panels with axes, lines and dots, as SVG.

A drawing is a page of panels of one size. What a panel shows is given in its own units; a scale puts it in its place.
"""

import base64
import math
import xml.etree.ElementTree as ET

STYLE = """
text{font:11px system-ui,sans-serif;fill:#5d6878}.title{font-size:16px;font-weight:600;fill:#1c2530}
.panel{font-size:13px;font-weight:600;fill:#1c2530}.end{text-anchor:end}.middle{text-anchor:middle}
.paper{fill:#fff}.grid{stroke:#e3e8ee;fill:none}.axis{stroke:#5d6878;fill:none}.line{fill:none;stroke-width:1.8}
.malloc{stroke:#5d6878;stroke-dasharray:5 4;fill:none}
@media(prefers-color-scheme:dark){text{fill:#93a0b2}.title,.panel{fill:#e6ebf2}.paper{fill:#14191f}
.grid{stroke:#2a323d}.axis,.malloc{stroke:#93a0b2}}
"""
COLOURS = ("#2f6fde", "#d2452f", "#0f8b62", "#b9770e", "#8a63d2", "#2a94a8", "#7b8794")


def nice(value):
    """A number as it stands at an axis."""
    return f"{value:g}" if value < 1e5 else f"{value:.0e}".replace("e+0", "e")


class Scale:
    """From a value to a place between 0 and 1; logarithmic, or from zero on, or in equal steps of given values."""

    def __init__(self, values, kind="linear"):
        self.kind, values = kind, list(values)
        if kind == "steps":
            self.values = sorted(set(values))
        elif kind == "log":
            self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
            self.high = max(self.high, self.low + 1)
        else:
            step = 10 ** math.floor(math.log10(max(values)))
            self.step = next(step * part for part in (0.2, 0.5, 1, 2) if max(values) / (step * part) <= 6)
            self.high = self.step * math.ceil(max(values) / self.step)

    def __call__(self, value):
        if self.kind == "steps":
            return (self.values.index(value) + 0.5) / len(self.values)
        if self.kind == "log":
            return (math.log10(value) - self.low) / (self.high - self.low)
        return value / self.high

    def name(self, tick):
        return str(tick) if self.kind == "steps" else nice(tick)

    def ticks(self):
        if self.kind == "steps":
            return self.values
        if self.kind == "log":
            return [10.0 ** power for power in range(self.low, self.high + 1)]
        return [i * self.step for i in range(round(self.high / self.step) + 1)]


class Drawing:
    """A page; `add` gives the next panel's corner."""

    def __init__(self, title, columns, rows, width=250, height=190, left=52, gap=26, top=72, right=24):
        self.columns, self.width, self.height, self.left, self.gap, self.top = columns, width, height, left, gap, top
        self.total = (columns * (width + left) + right, top - 8 + rows * (height + 64))
        self.root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", width=str(self.total[0]), height=str(self.total[1]),
                               viewBox=f"0 0 {self.total[0]} {self.total[1]}")
        ET.SubElement(self.root, "style").text = STYLE
        self.rect(0, 0, *self.total, "paper")
        self.text(24, 28, title, "title")
        self.count = 0

    def rect(self, x, y, width, height, kind):
        ET.SubElement(self.root, "rect", {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}",
                                          "class": kind})

    def text(self, x, y, words, kind="", **more):
        ET.SubElement(self.root, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": kind, **more}).text = words

    def path(self, points, kind, **more):
        where = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        ET.SubElement(self.root, "path", {"d": where, "class": kind, **more})

    def dot(self, x, y, colour, words):
        mark = ET.SubElement(self.root, "circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3", "fill": colour})
        ET.SubElement(mark, "title").text = words

    def cross(self, x, y, colour, words):
        mark = ET.SubElement(self.root, "path", {"d": f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6", "stroke": colour, "fill": "none"})
        ET.SubElement(mark, "title").text = words

    def image(self, x, y, width, height, png):
        """Points that are too many to draw one by one."""
        data = "data:image/png;base64," + base64.b64encode(png).decode()
        ET.SubElement(self.root, "image", {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}",
                                           "preserveAspectRatio": "none", "style": "image-rendering:pixelated", "href": data})

    def panel(self, title, across, up, label):
        """Axes for two scales; returns how to place values."""
        column, row = self.count % self.columns, self.count // self.columns
        self.count += 1
        x = self.left + column * (self.width + self.left)
        y = self.top + row * (self.height + 64)
        self.text(x, y - 10, title, "panel")

        def place(a, b):
            return x + across(a) * self.width, y + (1 - up(b)) * self.height

        for tick in up.ticks():
            at = y + (1 - up(tick)) * self.height
            self.path([(x, at), (x + self.width, at)], "grid")
            self.text(x - 5, at + 4, up.name(tick), "end")
        for tick in across.ticks():
            at = x + across(tick) * self.width
            if across.kind != "steps":
                self.path([(at, y), (at, y + self.height)], "grid")
            self.text(at, y + self.height + 14, nice(tick) if across.kind == "steps" else across.name(tick), "middle")
        self.text(x + self.width / 2, y + self.height + 29, label, "middle")
        self.path([(x, y), (x, y + self.height), (x + self.width, y + self.height)], "axis")
        return place

    def legend(self, names):
        """Names with their colours, at the top to the right; `None` is the dashed line."""
        x = self.total[0] - 24
        for name, colour in reversed(names):
            x -= 7 * len(name)
            self.text(x, 28, name)
            if colour is None:
                self.path([(x - 26, 24), (x - 5, 24)], "malloc")
                x -= 14
            else:
                self.path([(x - 18, 24), (x - 5, 24)], "line", stroke=colour)
            x -= 34

    def save(self, path):
        ET.indent(self.root)
        ET.ElementTree(self.root).write(path, encoding="unicode")
        with open(path, "a") as file:
            file.write("\n")
