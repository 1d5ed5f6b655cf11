#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the README's picture of a result: what demos/resnet prints about two samples, as an SVG.

    python3 docs/images/make_digits_svg.py [--demo build/demos/resnet] [--out FILE]      standard library only
"""
import argparse
import html
import os
import re
import struct
import subprocess
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SAMPLES = ["models/digits/samples/digit-5.png", "models/digits/samples/hard-4-or-9.png"]

PIXELS, CELL = 28, 5  # the picture as the network sees it, and the side of one of its pixels
WIDTH, MARGIN, TOP = 760, 20, 66
PANEL = (WIDTH - 3 * MARGIN) // 2
PICTURE = PIXELS * CELL
BAR = PANEL - PICTURE - 104

STYLE = """
  text { font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: 12px; fill: #c6cdd5; }
  .dim { fill: #8b949e; } .best { fill: #7ee0b0; } .right { text-anchor: end; }
"""


def read_gray_png(path):
    """Rows of an 8-bit gray PNG."""
    with open(path, "rb") as file:
        data = file.read()
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if (depth, colour, interlaced) != (8, 0, 0):
        raise SystemExit(f"{path} is no plain 8-bit gray PNG")
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(packed)
    rows, above = [], [0] * width
    for y in range(height):
        kind, *row = raw[y * (width + 1) : (y + 1) * (width + 1)]
        for x in range(width):
            left, corner = (row[x - 1], above[x - 1]) if x else (0, 0)
            row[x] = (row[x] + predict(kind, left, above[x], corner)) & 255
        rows.append(row)
        above = row
    return rows


def predict(kind, left, up, corner):
    """What PNG's filter of this kind adds to a byte."""
    if kind == 4:  # Paeth: whichever neighbour is nearest to left + up - corner
        return min((abs(up - corner), 0, left), (abs(left - corner), 1, up),
                   (abs(left + up - 2 * corner), 2, corner))[2]
    return (0, left, up, (left + up) // 2)[kind]


def shrink(rows, size):
    step = len(rows) // size
    return [
        [sum(sum(row[x * step : (x + 1) * step]) for row in rows[y * step : (y + 1) * step]) / step**2
         for x in range(size)]
        for y in range(size)
    ]


def picture(rows, left, top, shades=16):
    """The pixels of each shade as one path; black is the ground."""
    paths = {}
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            shade = round(value / 255 * (shades - 1))
            if shade:
                paths.setdefault(shade, []).append(f"M{left + x * CELL} {top + y * CELL}h{CELL}v{CELL}h-{CELL}z")
    lines = [f'<rect x="{left - 1}" y="{top - 1}" width="{PICTURE + 2}" height="{PICTURE + 2}" fill="#000" '
             f'stroke="#3a414b"/>']
    for shade, parts in sorted(paths.items()):
        level = f"{round(255 * shade / (shades - 1)):02x}"
        lines.append(f'<path fill="#{level * 3}" shape-rendering="crispEdges" d="{"".join(parts)}"/>')
    return lines


def chart(answers, left, top):
    """A row for each class: label, percent, bar."""
    best = max(percent for _, percent in answers)
    step = PICTURE / len(answers)
    lines = []
    for i, (label, percent) in enumerate(answers):
        y = top + i * step
        style = "best" if percent == best else "dim"
        base = round(y + step / 2 + 4, 1)
        lines.append(f'<text class="{style}" x="{left}" y="{base}">{html.escape(label)}</text>')
        lines.append(f'<text class="{style} right" x="{left + 72}" y="{base}">{percent:.1f} %</text>')
        width = max(round(percent / 100 * BAR, 1), 1)
        lines.append(
            f'<rect x="{left + 82}" y="{round(y + 3, 1)}" width="{width}" height="{round(step - 6, 1)}" rx="1.5" '
            f'fill="{"#3fb883" if style == "best" else "#59636e"}"/>'
        )
    return lines


def ask(demo, samples):
    """[[(label, percent)]] of each picture, read from what the demo prints."""
    command = [demo, "models/digits", *samples]
    text = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    blocks = text.strip().split("\n\n")
    found = [[(label, float(percent)) for label, percent in re.findall(r"│  (\S+) +([\d.]+) %", block)]
             for block in blocks]
    if len(found) != len(samples) or not all(found):
        raise SystemExit("the demo printed something else than bars")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demo", default=os.path.join(ROOT, "build", "demos", "resnet"), metavar="PROGRAM")
    parser.add_argument("--out", default=os.path.join(HERE, "digits.svg"), metavar="FILE")
    arguments = parser.parse_args()

    names = [os.path.basename(sample) for sample in SAMPLES]
    height = TOP + PICTURE + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">',
        f"<title>demos/resnet on {' and '.join(names)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="#161b22" stroke="#3a414b"/>',
        f'<text x="{MARGIN}" y="26"><tspan class="best">$</tspan> build/demos/resnet models/digits '
        f'models/digits/samples/*.png</text>',
    ]
    for i, answers in enumerate(ask(os.path.abspath(arguments.demo), SAMPLES)):
        left = MARGIN + i * (PANEL + MARGIN)
        lines.append(f'<text class="dim" x="{left}" y="{TOP - 12}">{html.escape(names[i])}</text>')
        lines += picture(shrink(read_gray_png(os.path.join(ROOT, SAMPLES[i])), PIXELS), left, TOP)
        lines += chart(answers, left + PICTURE + 18, TOP)
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines + ["</svg>"]) + "\n")


if __name__ == "__main__":
    main()
