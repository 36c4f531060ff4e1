#!/usr/bin/env python3
"""Draws a CSV of measure.py as an SVG, a diagram for each panel: draw.py CSV SVG. The lines are geometric means of the runs."""

import csv
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, COLUMNS = 330, 250, 3
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 42
COLOURS = ["#1f6fb4", "#d9541e", "#3a8f3a", "#8a4fa3", "#7a7a7a", "#b8860b", "#c2398f", "#17868f"]
# The width of a letter of the smallest text, about.
LETTER = 5.6


def read(path):
    """Returns the line about the machine, and by panel the series with their values by place, and what was not measured."""
    panels, notes = {}, []
    with open(path, newline="", encoding="utf-8") as file:
        about = file.readline().lstrip("# ").strip()
        for row in csv.DictReader(file):
            panel = panels.setdefault(row["panel"], {"unit": row["unit"], "x_name": row["x_name"], "x": [], "series": {}})
            series = panel["series"].setdefault(row["series"], {})
            if row["value"]:
                series.setdefault(row["x"], []).append(float(row["value"]))
                if row["x"] not in panel["x"]:
                    panel["x"].append(row["x"])
            elif (line := f"{row['series']}: {row['note']}") not in notes:
                notes.append(line)
    return about, panels, notes


def mean(values):
    """Returns the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def short(value):
    """Shows a number in few letters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def text(x, y, words, size=10, anchor="middle", extra=""):
    """Returns a line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" {extra}>{escape(str(words))}</text>'


def panel_svg(title, panel, colours):
    """Returns the shapes of a panel, in a box of WIDTH and HEIGHT. The axis of values is logarithmic."""
    means = {name: {x: mean(values) for x, values in series.items()} for name, series in panel["series"].items()}
    values = [value for series in means.values() for value in series.values()]
    parts = [text(WIDTH / 2, 16, title, 12)]
    if not values:
        return [*parts, text(WIDTH / 2, HEIGHT / 2, "nothing was measured")]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at_x(x):
        places = max(1, len(panel["x"]) - 1)
        return LEFT + 12 + (right - LEFT - 24) * panel["x"].index(x) / places

    def at_y(value):
        return bottom - (bottom - TOP) * (math.log10(value) - low) / (high - low)

    for power in range(low, high + 1):
        y = at_y(10.0**power)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(LEFT - 5, y + 3, short(10.0**power), anchor="end"))
    for x in panel["x"]:
        parts.append(text(at_x(x), bottom + 14, x))
    parts.append(text((LEFT + right) / 2, bottom + 30, panel["x_name"]))
    parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#333"/>')
    parts.append(text(14, (TOP + bottom) / 2, panel["unit"], extra=f'transform="rotate(-90 14 {(TOP + bottom) / 2:.1f})"'))
    for name, series in means.items():
        points = [(at_x(x), at_y(series[x])) for x in panel["x"] if x in series]
        colour = colours[name]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return parts


def wrapped(words, letters):
    """Breaks a text into lines."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= letters:
            lines.append("")
        lines[-1] += f"{word} "
    return lines


def draw(source, target):
    """Draws the results in `source` to `target`."""
    about, panels, notes = read(source)
    names = list(dict.fromkeys(name for panel in panels.values() for name, series in panel["series"].items() if series))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    colours |= {name: "#000" for panel in panels.values() for name in panel["series"] if name not in colours}
    columns = min(COLUMNS, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    width = max(columns * WIDTH, 2 * WIDTH)
    letters = int((width - 40) / LETTER)
    lines = wrapped(about, letters) + [line for note in notes for line in wrapped(f"not measured: {note}", letters)]
    top = 18 * len(names) + 12
    height = top + rows * HEIGHT + 14 * len(lines) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for i, name in enumerate(names):
        y = 16 + 18 * i
        parts.append(f'<line x1="20" y1="{y - 4}" x2="44" y2="{y - 4}" stroke="{colours[name]}" stroke-width="3"/>')
        parts.append(text(52, y, name, 12, "start"))
    for number, (title, panel) in enumerate(panels.items()):
        x, y = number % columns * WIDTH, top + number // columns * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *panel_svg(title, panel, colours), "</g>"]
    for i, line in enumerate(lines):
        parts.append(text(20, top + rows * HEIGHT + 14 * (i + 1), line, 10, "start"))
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>", ""]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(sys.argv[1], sys.argv[2])
