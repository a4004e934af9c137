"""Panels with axes, lines and dots, as SVG.

A drawing is a page of panels of one size. The content of a panel has its own units, which axes convert to
positions.
"""

import base64
import math
import struct
import xml.etree.ElementTree as ET
import zlib

STYLE = """
text{font:11px system-ui,sans-serif;fill:#5d6878}.title{font-size:16px;font-weight:600;fill:#1c2530}
.panel{font-size:13px;font-weight:600;fill:#1c2530}.end{text-anchor:end}.middle{text-anchor:middle}
.paper{fill:#fff}.grid{stroke:#e3e8ee;fill:none}.axis{stroke:#5d6878;fill:none}.line{fill:none;stroke-width:1.8}
.malloc{stroke:#5d6878;stroke-dasharray:5 4;fill:none}
@media(prefers-color-scheme:dark){text{fill:#93a0b2}.title,.panel{fill:#e6ebf2}.paper{fill:#14191f}
.grid{stroke:#2a323d}.axis,.malloc{stroke:#93a0b2}}
.mean{fill:none;stroke:#1c2530;stroke-width:1.3}.edge{fill:none;stroke:#fff;stroke-width:3.2;stroke-opacity:.75}
@media(prefers-color-scheme:dark){.mean{stroke:#e6ebf2}.edge{stroke:#14191f}}
"""
COLOURS = ("#2f6fde", "#d2452f", "#0f8b62", "#b9770e", "#8a63d2", "#2a94a8", "#7b8794")


def nice(value):
    """A number, formatted for an axis."""
    return f"{value:g}" if value < 1e5 else f"{value:.0e}".replace("e+0", "e")


class Axis:
    """Maps values to positions between 0 and 1, and has the given ticks."""

    grid = True

    def __init__(self, ticks, name=nice, low=None, high=None, log=False):
        self.ticks, self.name, self.log = ticks, name, log
        self.low, self.high = ticks[0] if low is None else low, ticks[-1] if high is None else high

    def __call__(self, value):
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Steps:
    """Values or names in equal steps, in the given order."""

    grid = False

    def __init__(self, values):
        self.ticks = list(values)

    def __call__(self, value):
        return (self.ticks.index(value) + 0.5) / len(self.ticks)

    def name(self, tick):
        return tick if isinstance(tick, str) else nice(tick)


def linear(high, name=nice, parts=7):
    """A linear axis from zero to a little more than the largest value."""
    step = 10 ** math.floor(math.log10(high))
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if high / (step * part) <= parts)
    ticks = [i * step for i in range(math.floor(high / step) + 1)]
    return Axis(ticks, name, high=max(high, ticks[-1]))


def logarithmic(low, high, name=nice):
    """A logarithmic axis with ticks at powers of ten, from below the least value to above the largest."""
    low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return Axis([10.0 ** power for power in range(low, max(high, low + 1) + 1)], name, log=True)


def png(pixels, width, palette):
    """Pixels (indices of colours, row by row) as a PNG; a colour is red, green, blue, opacity."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(pixels[at:at + width]) for at in range(0, len(pixels), width))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(pixels) // width, 8, 3, 0, 0, 0))
            + chunk(b"PLTE", b"".join(bytes(colour[:3]) for colour in palette))
            + chunk(b"tRNS", bytes(colour[3] for colour in palette))
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


class Drawing:
    """A page; `panel` draws the axes of the next panel."""

    def __init__(self, title, columns, rows, width=250, height=190, left=52, gap=26, top=86, right=24):
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

    def mean(self, points):
        """A line with an edge in the background's colour, so that it stands out from all colours."""
        self.path(points, "edge")
        self.path(points, "mean")

    def shape(self, path, colour):
        ET.SubElement(self.root, "path", {"d": path, "fill": colour})

    def dot(self, x, y, colour, words):
        mark = ET.SubElement(self.root, "circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3", "fill": colour})
        ET.SubElement(mark, "title").text = words

    def cross(self, x, y, colour, words):
        mark = ET.SubElement(self.root, "path", {"d": f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6", "stroke": colour, "fill": "none"})
        ET.SubElement(mark, "title").text = words

    def image(self, x, y, width, height, png):
        """An image, for more points than can be drawn one by one."""
        data = "data:image/png;base64," + base64.b64encode(png).decode()
        ET.SubElement(self.root, "image", {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}",
                                           "preserveAspectRatio": "none", "style": "image-rendering:pixelated", "href": data})

    def panel(self, title, across, up, label):
        """Draws the axes of a panel; returns a function that places values."""
        column, row = self.count % self.columns, self.count // self.columns
        self.count += 1
        x = self.left + column * (self.width + self.left)
        y = self.top + row * (self.height + 64)
        self.text(x, y - 10, title, "panel")

        def place(a, b):
            return x + across(a) * self.width, y + (1 - up(b)) * self.height

        for tick in up.ticks:
            at = y + (1 - up(tick)) * self.height
            self.path([(x, at), (x + self.width, at)], "grid")
            self.text(x - 5, at + 4, up.name(tick), "end")
        for tick in across.ticks:
            at = x + across(tick) * self.width
            if across.grid:
                self.path([(at, y), (at, y + self.height)], "grid")
            self.text(at, y + self.height + 14, across.name(tick), "middle")
        self.text(x + self.width / 2, y + self.height + 29, label, "middle")
        self.path([(x, y), (x, y + self.height), (x + self.width, y + self.height)], "axis")
        return place

    def keys(self, names, square=False, y=50):
        """Draws a legend under the title, in as many lines as it takes; a colour may be a kind of line,
        `malloc` (dashed) or `mean`.
        """
        x = 24
        for name, colour in names:
            width = 5.8 * len(name) + 36
            if x + width > self.total[0] - 10:
                x, y = 24, y + 18
            line = [(x - 4, y - 4), (x + 12, y - 4)]
            if colour in ("malloc", "mean"):
                self.path(line, colour)
            elif square:
                self.shape(f"M{x} {y - 9}h10v10h-10z", colour)
            else:
                self.path(line, "line", stroke=colour)
            self.text(x + 16, y, name)
            x += width

    def save(self, path):
        ET.indent(self.root)
        ET.ElementTree(self.root).write(path, encoding="unicode")
        with open(path, "a") as file:
            file.write("\n")
