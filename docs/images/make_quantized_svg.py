#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws how near networks in 8 bits are to themselves in floats by how long they take, beside other runtimes.

    python3 docs/images/make_quantized_svg.py [DATA.json] [--out docs/images/quantized.svg]      standard library only

DATA.json is what `tools/quantize-accuracy.py --peers --json` writes (docs/data/quantized-neoverse-v1.json).
"""
import argparse
import html
import json
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data", "quantized-neoverse-v1.json")
COLOURS = {"Oort": "#d62728", "ONNX Runtime": "#1f77b4", "OpenVINO": "#2ca02c", "ncnn": "#9467bd"}
WIDTH, HEIGHT, LEFT, TOP = 640, 340, 60, 40

STYLE = """
  text { font-family: sans-serif; font-size: 12px; fill: #57606a; } .title { font-weight: bold; }
  .grid { stroke: #8b949e; stroke-opacity: 0.3; } .end { text-anchor: end; } .middle { text-anchor: middle; }
"""


class Plane:
    """Milliseconds on a logarithmic axis, dB on a linear one."""

    def __init__(self, rows):
        times, decibels = [row["ms"] for row in rows], [row["sqnr_db"] for row in rows]
        self.low, self.high = 0.8 * min(times), 1.25 * max(times)
        self.bottom, self.top = 5 * math.floor(min(decibels) / 5), 5 * math.ceil(max(decibels) / 5)

    def x(self, ms):
        return LEFT + WIDTH * math.log(ms / self.low) / math.log(self.high / self.low)

    def y(self, decibels):
        return TOP + HEIGHT * (self.top - decibels) / (self.top - self.bottom)

    def axes(self):
        title = "signal over noise in dB, of the network in floats: up and to the left is better"
        yield f'<text class="title" x="{LEFT}" y="{TOP - 14}">{title}</text>'
        yield (f'<text class="middle" x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 38}">'
               "ms of processor time for a picture, one thread</text>")
        for decibels in range(self.bottom, self.top + 1, 5):
            at = self.y(decibels)
            yield f'<path class="grid" d="M{LEFT} {at:.1f}h{WIDTH}"/>'
            yield f'<text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">{decibels}</text>'
        for ms in (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100):
            if self.low <= ms <= self.high:
                at = self.x(ms)
                yield f'<path class="grid" d="M{at:.1f} {TOP}V{TOP + HEIGHT}"/>'
                yield f'<text class="middle" x="{at:.1f}" y="{TOP + HEIGHT + 18}">{ms}</text>'


def draw(rows):
    rows = [row for row in rows if row["runtime"] in COLOURS]
    plane = Plane(rows)
    parts = list(plane.axes())
    for network in dict.fromkeys(row["network"] for row in rows):
        ours = next(row for row in rows if row["network"] == network and row["runtime"] == "Oort")
        x, y = plane.x(ours["ms"]), plane.y(ours["sqnr_db"])
        for row in rows:
            if row["network"] != network:
                continue
            at, height, colour = plane.x(row["ms"]), plane.y(row["sqnr_db"]), COLOURS[row["runtime"]]
            parts.append(f'<path d="M{x:.1f} {y:.1f}L{at:.1f} {height:.1f}" stroke="{colour}" stroke-opacity="0.35"/>')
            parts.append(f'<circle cx="{at:.1f}" cy="{height:.1f}" r="5" fill="{colour}"/>')
        parts.append(f'<text class="middle" x="{x:.1f}" y="{y - 10:.1f}">{html.escape(network)}</text>')
    for index, (name, colour) in enumerate(COLOURS.items()):
        x, y = LEFT + 150 * index, TOP + HEIGHT + 62
        parts.append(f'<circle cx="{x + 6}" cy="{y - 4}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="{y}">{html.escape(name)}</text>')
    width, height = LEFT + WIDTH + 20, TOP + HEIGHT + 76
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
            f"<style>{STYLE}</style>" + "\n".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=DATA)
    parser.add_argument("--out", default=os.path.join(HERE, "quantized.svg"))
    arguments = parser.parse_args()
    with open(arguments.data, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(draw(rows))


if __name__ == "__main__":
    main()
