#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what batches of a language model reach, from reports of `oort bench-llm --batch 1,2,4,… --json`.

    python3 docs/images/make_batches_svg.py REPORT.json … [--out docs/images/batches.svg]      standard library only

Left: tokens a second of all answers by how many run at once, and dashed what the machine allows. Right: the time that
a reader waits for the next token by the tokens a second of all.
"""
import argparse
import html
import json
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"]
PANEL, HEIGHT, LEFT, TOP, GAP = 360, 300, 70, 46, 100

STYLE = """
  text { font-family: sans-serif; font-size: 12px; fill: #57606a; } .title { font-weight: bold; }
  .grid { stroke: #8b949e; stroke-opacity: 0.3; } .end { text-anchor: end; } .middle { text-anchor: middle; }
"""


class Panel:
    """A plane with two logarithmic axes around the points."""

    def __init__(self, left, xs, ys, base):
        self.left, self.base = left, base
        self.x_low, self.x_high = self.bounds(xs, base)
        self.y_low, self.y_high = self.bounds(ys, 10)

    @staticmethod
    def bounds(values, base):
        low = math.floor(math.log(min(values), base) + 1e-9)
        high = math.ceil(math.log(max(values), base) - 1e-9)
        return base**low, base ** max(high, low + 1)

    def x(self, value):
        return self.left + PANEL * math.log(value / self.x_low) / math.log(self.x_high / self.x_low)

    def y(self, value):
        return TOP + HEIGHT * (1 - math.log(value / self.y_low) / math.log(self.y_high / self.y_low))

    def axes(self, title, x_title):
        yield f'<text class="title" x="{self.left}" y="{TOP - 14}">{html.escape(title)}</text>'
        yield (f'<text class="middle" x="{self.left + PANEL / 2}" y="{TOP + HEIGHT + 36}">'
               f"{html.escape(x_title)}</text>")
        for low, high, base, vertical in ((self.x_low, self.x_high, self.base, True),
                                          (self.y_low, self.y_high, 10, False)):
            value = low
            while value <= high * 1.001:
                label = f"{value:,.0f}" if value >= 1 else f"{value:g}"
                if vertical:
                    at = self.x(value)
                    yield f'<path class="grid" d="M{at:.1f} {TOP}V{TOP + HEIGHT}"/>'
                    yield f'<text class="middle" x="{at:.1f}" y="{TOP + HEIGHT + 18}">{label}</text>'
                else:
                    at = self.y(value)
                    yield f'<path class="grid" d="M{self.left} {at:.1f}h{PANEL}"/>'
                    yield f'<text class="end" x="{self.left - 6}" y="{at + 4:.1f}">{label}</text>'
                value *= base

    def curve(self, points, colour, dashed=False):
        path = "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4" stroke-opacity="0.6"' if dashed else ""
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        if not dashed:
            for x, y in points:
                yield f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{colour}"/>'


def name_of(report):
    model = os.path.basename(report["model"])
    return f"{model} {report['weights']}".strip() + f", {report['device']}"


def draw(reports):
    rows = [[row for row in report["batches"] if row["decode_tps"] > 0] for report in reports]
    every = [row for some in rows for row in some]
    rates = [row["decode_tps"] for row in every] + [row["decode_limit_tps"] for row in every]
    throughput = Panel(LEFT, [row["batch"] for row in every], rates, 2)
    latency = Panel(LEFT + PANEL + GAP, [row["decode_tps"] for row in every], [row["token_ms"] for row in every], 10)
    parts = [*throughput.axes("tokens a second of all answers", "answers at once (dashed: what the machine allows)"),
             *latency.axes("milliseconds a token", "tokens a second of all answers")]
    for index, (report, some) in enumerate(zip(reports, rows)):
        colour = COLOURS[index % len(COLOURS)]
        parts += throughput.curve([(row["batch"], row["decode_limit_tps"]) for row in some], colour, dashed=True)
        parts += throughput.curve([(row["batch"], row["decode_tps"]) for row in some], colour)
        parts += latency.curve([(row["decode_tps"], row["token_ms"]) for row in some], colour)
        y = TOP + HEIGHT + 60 + 18 * index
        parts.append(f'<path d="M{LEFT} {y - 4}h24" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 32}" y="{y}">{html.escape(name_of(report))}</text>')
    width, height = LEFT + 2 * PANEL + GAP + 30, TOP + HEIGHT + 66 + 18 * len(reports)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
            f"<style>{STYLE}</style>" + "\n".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--out", default=os.path.join(HERE, "batches.svg"))
    arguments = parser.parse_args()
    reports = []
    for path in arguments.reports:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(draw(reports))


if __name__ == "__main__":
    main()
