#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws drafts.svg: how many tokens a step gives by how many guesses of n-grams it checks, for three kinds of prompts.

    python3 docs/images/make_drafts_svg.py MODEL [--oort build/oort] [--tokens 128] [--out docs/images/drafts.svg]

Counts, not times: the picture is the same on every machine. The prompts are those of bench/drafts.py. Standard library
only.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from drafts import PROMPTS  # noqa: E402

GUESSES = (1, 2, 4, 8, 15)
NAMES = {"edit": "correct or change a text", "summary": "summarize a text", "free": "nothing to copy from"}
COLORS = {"edit": "#2563eb", "summary": "#d97706", "free": "#6b7280"}
LEFT, TOP, WIDTH, HEIGHT = 56, 40, 420, 240


def tokens_per_step(arguments, prompt, guesses):
    command = [arguments.oort, "generate", arguments.model, "--prompt", prompt, "--max-tokens", arguments.tokens]
    command += ["--draft", "ngram", "--draft-tokens", guesses, "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["draft"]["tokens_per_step"]


def draw(rows):
    most = max(value for values in rows.values() for value in values)
    top = int(most) + 1

    def place(guesses, value):
        return LEFT + WIDTH * guesses / GUESSES[-1], TOP + HEIGHT * (1 - value / top)

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 190} {TOP + HEIGHT + 50}" '
             'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>',
             f'<text x="{LEFT}" y="22" font-size="14">Tokens a step, by guesses of n-grams that it checks</text>']
    for value in range(top + 1):
        y = place(0, value)[1]
        lines.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#e5e7eb"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for guesses in (0, *GUESSES):
        x = place(guesses, 0)[0]
        lines.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{guesses}</text>')
    lines.append(f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">guesses '
                 f'(--draft-tokens)</text>')
    for kind, values in rows.items():
        points = [place(guesses, value) for guesses, value in zip((0, *GUESSES), (1, *values))]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[kind]}" stroke-width="2"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS[kind]}"/>' for x, y in points]
        x, y = points[-1]
        lines.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{COLORS[kind]}">{NAMES[kind]}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--oort", default=ROOT / "build" / "oort")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--out", default=pathlib.Path(__file__).with_name("drafts.svg"), type=pathlib.Path)
    arguments = parser.parse_args()
    rows = {}
    for kind in NAMES:
        prompts = PROMPTS[kind]
        rows[kind] = [statistics.mean(tokens_per_step(arguments, prompt, guesses) for prompt in prompts)
                      for guesses in GUESSES]
        print(kind, [round(value, 2) for value in rows[kind]], flush=True)
    arguments.out.write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
