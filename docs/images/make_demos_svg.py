#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the pictures of docs/demos.md for classify, read, speak and search: what they answer to inputs made here.

    pip install numpy pillow                                 and Debian's espeak-ng, fonts-wqy-microhei
    demos/run …                                              once for each demo, so that the networks are there
    python3 docs/images/make_demos_svg.py [NAME…] [--demos build/demos]

classify and read see pictures that Pillow draws, search reads this repository's documents.
"""
import argparse
import base64
import html
import io
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import wave

import numpy as np
from PIL import Image, ImageDraw, ImageFont

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODELS = ROOT / ".cache" / "models"
sys.path.insert(0, str(ROOT / "tools"))
import drawn_pages  # noqa: E402

WIDTH, MARGIN, TOP = 760, 20, 48
TEXT = "The comet came back after seventy-six years."
PAGES = ["docs/profiling.md", "docs/demos.md", "docs/sampling.md"]
QUESTIONS = ["Which operator is slow?", "Who finds text in a photograph?"]
SIDE, SMOOTH = 256, 4  # a drawn picture, and how much larger it is drawn
INK, WHITE, SKY = "#1e1c1a", "#fbf9f2", "#cfe2f3"

STYLE = """
  text { font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: 12px; fill: #c6cdd5; }
  .dim { fill: #8b949e; } .best { fill: #7ee0b0; } .right { text-anchor: end; }
"""


def run(command, **options):
    return subprocess.run([str(part) for part in command], check=True, cwd=ROOT, stdout=subprocess.PIPE,
                          encoding="utf-8", **options).stdout  # fmt: skip


def text(x, y, content, style="", more=""):
    return f'<text class="{style}" x="{x:g}" y="{y:g}"{more}>{html.escape(content)}</text>'


def bar(x, y, width, best):
    return f'<rect x="{x:g}" y="{y:g}" width="{max(width, 1):.1f}" height="4" rx="1.5" ' \
           f'fill="{"#3fb883" if best else "#59636e"}"/>'  # fmt: skip


def embedded(image, left, top, width, kind):
    """A picture within the SVG; its corner and its width there."""
    data = io.BytesIO()
    image.save(data, kind, optimize=True, **({"quality": 55} if kind == "JPEG" else {}))
    coded = base64.b64encode(data.getvalue()).decode()
    height = width * image.height / image.width
    return f'<image x="{left}" y="{top}" width="{width}" height="{height:g}" ' \
           f'href="data:image/{kind.lower()};base64,{coded}"/>'  # fmt: skip


def framed(command, height, lines):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img">',
        f"<title>{html.escape(command)}</title>", f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="#161b22" stroke="#3a414b"/>',
        f'<text x="{MARGIN}" y="26"><tspan class="best">$</tspan> {html.escape(command)}</text>',
        *lines, "</svg>",
    ]) + "\n"  # fmt: skip


class Drawing:
    """Shapes on a square picture, smooth at their edges."""

    def __init__(self, ground):
        self.image = Image.new("RGB", (SIDE * SMOOTH, SIDE * SMOOTH), ground)
        self.draw = ImageDraw.Draw(self.image)

    def shape(self, kind, fill, *corners, **options):
        getattr(self.draw, kind)([SMOOTH * value for value in corners], fill=fill, **options)

    def hand(self, degrees, begin, end, width):
        x, y = math.sin(math.radians(degrees)), -math.cos(math.radians(degrees))
        ends = [128 + x * begin, 128 + y * begin, 128 + x * end, 128 + y * end]
        self.shape("line", INK, *ends, width=SMOOTH * width)

    def done(self):
        return self.image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).quantize(64).convert("RGB")


def clock():
    drawing = Drawing("#d0c6b2")
    drawing.shape("ellipse", "#3c2819", 28, 28, 228, 228)
    drawing.shape("ellipse", WHITE, 40, 40, 216, 216)
    font = ImageFont.truetype(drawn_pages.font_file("DejaVu Serif:style=Book", "1"), 20 * SMOOTH)
    for hour in range(1, 13):
        angle = math.radians(30 * hour)
        place = SMOOTH * (128 + 68 * math.sin(angle)), SMOOTH * (128 - 68 * math.cos(angle))
        drawing.draw.text(place, str(hour), fill=INK, font=font, anchor="mm")
    for minute in range(60):
        drawing.hand(6 * minute, 83 if minute % 5 else 80, 86, 1 if minute % 5 else 3)
    drawing.hand(305, 0, 44, 7)
    drawing.hand(60, 0, 62, 4)
    drawing.shape("ellipse", INK, 122, 122, 134, 134)
    return drawing.done()


def traffic_light():
    drawing = Drawing(SKY)
    drawing.shape("rectangle", "#464a4e", 120, 200, 136, 256)
    drawing.shape("rounded_rectangle", "#1c201e", 86, 18, 170, 208, radius=14 * SMOOTH)
    for top, color in ((30, "#ff3c28"), (88, "#50420a"), (146, "#0a3c1e")):
        drawing.shape("ellipse", color, 100, top, 156, top + 52)
        place = [SMOOTH * value for value in (96, top - 6, 160, top + 54)]
        drawing.draw.arc(place, 180, 360, fill="#0a0a0a", width=6 * SMOOTH)
    drawing.shape("ellipse", "#ff9678", 112, 38, 136, 58)
    return drawing.done()


def balloon():
    drawing = Drawing(SKY)
    stripes = [("#dc3228", 62, 194, 80, 176, 114, 142), ("#f5be28", 80, 176, 100, 156, 118, 138),
               ("#285aaa", 104, 152, 116, 140, 124, 132)]  # fmt: skip
    for color, _, _, left, right, low_left, low_right in stripes:
        drawing.shape("polygon", color, left, 130, right, 130, low_right, 196, low_left, 196)
    for color, left, right, *_ in stripes:
        drawing.shape("ellipse", color, left, 16, right, 158)
    for high, low in ((115, 118), (141, 138)):
        drawing.shape("line", "#3c2814", high, 196, low, 218, width=SMOOTH)
    drawing.shape("rounded_rectangle", "#7d5028", 115, 216, 141, 238, radius=4 * SMOOTH)
    return drawing.done()


def classify(demos, scratch):
    """Three drawn pictures, each with five classes."""
    pictures = {"clock.png": clock(), "light.png": traffic_light(), "balloon.png": balloon()}
    panel, lines = (WIDTH - 4 * MARGIN) // 3, []
    for i, (name, picture) in enumerate(pictures.items()):
        left = MARGIN + i * (panel + MARGIN)
        picture.save(scratch / name)
        printed = run([demos / "classify", MODELS / "mobilenet-v2", scratch / name])
        lines.append(embedded(picture.quantize(64), left, TOP, panel, "PNG"))
        for k, (percent, label) in enumerate(re.findall(r"^ +([\d.]+) %  (.*?) *[█▏▎▍▌▋▊▉]*$", printed, re.MULTILINE)):
            y, style = TOP + panel + 22 + 26 * k, "best" if k == 0 else "dim"
            lines += [text(left, y, label, style), text(left + panel, y, percent + " %", style + " right"),
                      bar(left, y + 6, panel * float(percent) / 100, k == 0)]  # fmt: skip
    return framed("demos/run classify " + " ".join(pictures), TOP + panel + 5 * 26 + MARGIN, lines)


def read(demos, scratch):
    """A page, the boxes on it, and each line at its height beside it."""
    page = drawn_pages.draw_pages()["photographed"]
    page.save(scratch / "page.png")
    printed = run([demos / "read", MODELS / "pp-ocr", scratch / "page.png"])
    width = 340
    scale = width / page.width
    lines = [embedded(page, MARGIN, TOP, width, "JPEG")]
    for score, *box, found in re.findall(r"^  ([\d.]+) +(\d+) +(\d+) +(\d+) +(\d+)  (.+)$", printed, re.MULTILINE):
        x, y, right, bottom = (scale * int(edge) for edge in box)
        lines.append(f'<rect x="{MARGIN + x:.1f}" y="{TOP + y:.1f}" width="{right - x:.1f}" height="{bottom - y:.1f}" '
                     'fill="none" stroke="#2563eb" stroke-width="1.5"/>')  # fmt: skip
        base = round(TOP + (y + bottom) / 2 + 4, 1)
        lines += [text(MARGIN + width + 16, base, score, "dim"), text(MARGIN + width + 60, base, found, "best")]
    return framed("demos/run read page.png", TOP + round(scale * page.height) + MARGIN, lines)


def sound_path(samples, rate, left, middle, second, height):
    """The lowest and highest sample of each pixel."""
    step = rate / second
    pieces = [samples[int(i * step) : int((i + 1) * step)] for i in range(int(len(samples) / step))]
    corners = [(left + i, middle - height * piece.max()) for i, piece in enumerate(pieces)]
    corners += [(left + i, middle - height * piece.min()) for i, piece in reversed(list(enumerate(pieces)))]
    return "M" + "L".join(f"{x:g} {y:.1f}" for x, y in corners) + "Z"


def speak(demos, scratch):
    """The phonemes, and the waves of the same words at two speeds."""
    phonemes = run(["espeak-ng", "-q", "--ipa", "-v", "en-us", "--", TEXT])
    waves = []
    for options in ([], ["--slower", "1.3"]):
        run([demos / "speak", MODELS / "piper-joe", scratch / "said.wav", "--seed", "3", *options], input=phonemes)
        with wave.open(str(scratch / "said.wav")) as file:
            rate, data = file.getframerate(), file.readframes(file.getnframes())
        waves.append((" ".join(options), np.frombuffer(data, "<i2") / 32768))
    longest = max(len(samples) for _, samples in waves) / rate
    second, lines = (WIDTH - 2 * MARGIN) / longest, [text(MARGIN, 50, " ".join(phonemes.split()), "dim")]
    loudest = max(np.abs(samples).max() for _, samples in waves)
    for i, (options, samples) in enumerate(waves):
        middle = 126 + 104 * i
        path = sound_path(samples, rate, MARGIN, middle, second, 40 / loudest)
        told = f"{len(samples) / rate:.2f} s" + (f"  {options}" if options else "")
        lines += [f'<path d="{path}" fill="{"#59636e" if options else "#3fb883"}"/>', text(MARGIN, middle - 42, told)]
    bottom = 126 + 104 + 52
    for tenth in range(0, int(10 * longest) + 1, 5):
        x = MARGIN + second * tenth / 10
        lines.append(f'<path d="M{x:.1f} {bottom - 6}v6" stroke="#59636e"/>')
        lines.append(text(round(x, 1), bottom + 14, f"{tenth / 10:g}", "dim", ' text-anchor="middle"'))
    return framed(f'demos/run speak "{TEXT}" comet.wav --seed 3', bottom + 14 + 16, lines)


def search(demos, scratch):
    """Two questions with three passages each."""
    run([demos / "search", "index", MODELS / "minilm", scratch / "index", *PAGES])
    lines, y = [], 54
    for question in QUESTIONS:
        printed = run([demos / "search", "find", MODELS / "minilm", scratch / "index", question, "--top", "3"])
        lines.append(f'<text x="{MARGIN}" y="{y}"><tspan class="best">$</tspan> demos/run search find my-index '
                     f'"{html.escape(question)}"</text>')  # fmt: skip
        for k, (score, place, passage) in enumerate(re.findall(r"^([-\d.]+)  (.*)\n    (.*)$", printed, re.MULTILINE)):
            y += 32
            style = "best" if k == 0 else "dim"
            shown = passage if len(passage) < 96 else passage[:95].rsplit(" ", 1)[0] + " …"
            lines += [text(MARGIN, y, score, style), bar(MARGIN + 56, y - 7, 200 * float(score), k == 0),
                      text(MARGIN + 272, y, place, style), text(MARGIN, y + 16, shown)]  # fmt: skip
            y += 10
        y += 44
    return framed("demos/run search index my-index " + " ".join(PAGES), y - 14, lines)


DRAWN = {"classify": classify, "read": read, "speak": speak, "search": search}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: " + " ".join(DRAWN))
    parser.add_argument("--demos", type=pathlib.Path, default=ROOT / "build" / "demos", metavar="FOLDER")
    arguments = parser.parse_args()
    for name in arguments.names or DRAWN:
        with tempfile.TemporaryDirectory() as scratch:
            drawn = DRAWN[name](arguments.demos.resolve(), pathlib.Path(scratch))
        (HERE / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
