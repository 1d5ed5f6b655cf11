#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what `oort limits` predicts for several GPUs and machines, beside the points that gpt-fast has published.

    python3 docs/images/make_limits_ranks_svg.py [--oort build/oort] [--out docs/images/limits-ranks.svg]

It prints the tables of docs/several-machines.md. Left in the picture: Llama-2 in 16 bits on 1 to 8 A100 over NVLink,
with dots where gpt-fast's README has a rate. Right: Llama-2-7B in 4 bits on 1 to 8 H100 over several links.
"""
import argparse
import html
import json
import math
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"]
PANEL, HEIGHT, LEFT, TOP, GAP = 340, 280, 60, 46, 90
RANKS = [1, 2, 3, 4, 5, 6, 7, 8]

SHAPES = {
    "Llama-2-7B": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008},
    "Llama-2-70B": {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                    "num_key_value_heads": 8, "intermediate_size": 28672},
}
# Tokens a second of one user in 16 bits on A100-80GB, from the README of gpt-fast ("Tensor Parallelism").
PUBLISHED = {"Llama-2-7B": {1: 104.9, 2: 168.84, 4: 254.02, 8: 328.43}, "Llama-2-70B": {2: 21.32, 4: 38.01, 8: 62.50}}
# The README's own peak of these GPUs, and what its rate of the 7B on one GPU leaves beside reading at that peak.
GPT_FAST = ["--machine", "a100", "--bandwidth", "1700", "--layer-overhead", "55", "--link", "nvlink"]
LINKS = {"nvlink": "NVLink", "pcie": "PCIe 4", "100gbe": "100 GbE", "1gbe": "1 GbE"}

STYLE = """
  text { font-family: sans-serif; font-size: 12px; fill: #57606a; } .title { font-weight: bold; }
  .grid { stroke: #8b949e; stroke-opacity: 0.3; } .end { text-anchor: end; } .middle { text-anchor: middle; }
"""


def predict(oort, model, bits, options):
    """Tokens a second by link and number of ranks."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "vocab_size": 32000, **SHAPES[model]}, file)
        ranks = ",".join(map(str, RANKS))
        command = [oort, "limits", path, "--weights", bits, "--kv", "16", *options, "--ranks", ranks, "--json"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    rates = {}
    for row in report["machines"][0]["ranks"]:
        rates.setdefault(row["link"], {})[row["ranks"]] = row["tokens_per_second"]
    return rates


class Panel:
    """Ranks to the right, tokens a second upwards, the latter by powers of ten."""

    def __init__(self, left, rates):
        self.left = left
        self.low = 10 ** math.floor(math.log10(min(rates)))
        self.high = 10 ** math.ceil(math.log10(max(rates)))

    def x(self, ranks):
        return self.left + PANEL * (ranks - 1) / (RANKS[-1] - 1)

    def y(self, rate):
        return TOP + HEIGHT * (1 - math.log(rate / self.low) / math.log(self.high / self.low))

    def axes(self, title, x_title):
        yield f'<text class="title" x="{self.left}" y="{TOP - 14}">{html.escape(title)}</text>'
        middle = self.left + PANEL / 2
        yield f'<text class="middle" x="{middle}" y="{TOP + HEIGHT + 36}">{html.escape(x_title)}</text>'
        for ranks in RANKS:
            yield f'<path class="grid" d="M{self.x(ranks):.1f} {TOP}V{TOP + HEIGHT}"/>'
            yield f'<text class="middle" x="{self.x(ranks):.1f}" y="{TOP + HEIGHT + 18}">{ranks}</text>'
        rate = self.low
        while rate <= self.high * 1.001:
            for factor in (1, 2, 5):
                if rate * factor > self.high * 1.001:
                    continue
                y = self.y(rate * factor)
                yield f'<path class="grid" d="M{self.left} {y:.1f}h{PANEL}"/>'
                yield f'<text class="end" x="{self.left - 6}" y="{y + 4:.1f}">{rate * factor:,.0f}</text>'
            rate *= 10

    def curve(self, rates, colour, name):
        path = "M" + "L".join(f"{self.x(ranks):.1f} {self.y(rate):.1f}" for ranks, rate in rates.items())
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield f'<text x="{self.left + PANEL + 4}" y="{self.y(rates[RANKS[-1]]) + 4:.1f}">{html.escape(name)}</text>'

    def dots(self, rates, colour):
        for ranks, rate in rates.items():
            yield f'<circle cx="{self.x(ranks):.1f}" cy="{self.y(rate):.1f}" r="4.5" fill="{colour}"/>'


def draw(gpus, links):
    left = Panel(LEFT, [rate for rates in gpus.values() for rate in rates.values()])
    right = Panel(LEFT + PANEL + GAP + 40, [rate for rates in links.values() for rate in rates.values()])
    parts = [*left.axes("Llama-2 in 16 bits, tokens a second", "A100 over NVLink (dots: gpt-fast, published)"),
             *right.axes("Llama-2-7B in 4 bits, tokens a second", "H100 over a link (limits, nothing measured)")]
    for colour, (model, rates) in zip(COLOURS, gpus.items()):
        parts += left.curve(rates, colour, model.removeprefix("Llama-2-"))
        parts += left.dots(PUBLISHED[model], colour)
    for colour, (link, rates) in zip(COLOURS, links.items()):
        parts += right.curve(rates, colour, LINKS[link])
    width, height = right.left + PANEL + 66, TOP + HEIGHT + 50
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
            f"<style>{STYLE}</style>" + "\n".join(parts) + "</svg>\n")


def tables(gpus, links):
    yield "| | GPUs | gpt-fast, tokens/s | `oort limits` | off by |"
    yield "|---|---|---|---|---|"
    for model, points in PUBLISHED.items():
        for ranks, rate in points.items():
            off = 100 * (gpus[model][ranks] / rate - 1)
            yield f"| {model} | {ranks} | {rate:.1f} | {gpus[model][ranks]:.1f} | {off:+.1f} % |"
    yield ""
    shown = (1, 2, 4, 8)
    yield "| link | " + " | ".join(map(str, shown)) + " |"
    yield "|---|" + "---|" * len(shown)
    for link, rates in links.items():
        yield f"| {LINKS[link]} | " + " | ".join(f"{rates[ranks]:.0f}" for ranks in shown) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oort", default="build/oort")
    parser.add_argument("--out", default=os.path.join(HERE, "limits-ranks.svg"))
    options = parser.parse_args()
    gpus = {model: predict(options.oort, model, "16", GPT_FAST)["nvlink"] for model in SHAPES}
    links = predict(options.oort, "Llama-2-7B", "4", ["--machine", "h100", "--link", ",".join(LINKS)])
    print("\n".join(tables(gpus, links)))
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(draw(gpus, links))


if __name__ == "__main__":
    main()
