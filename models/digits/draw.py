#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws handwritten-looking digits, pen stroke by pen stroke: pictures to try and to test with that are ours.

    python3 models/digits/draw.py [--out DIR] [--sheet FILE.png]      needs numpy and pillow

Each digit has several ways of writing it, given as points that the pen passes. A drawing takes one of them, moves its
points a little, leans, turns and stretches it, and inks it with a pen whose pressure varies; then it is fitted the
way MNIST's digits are: 20 pixels high or wide, in the middle of 28x28 by its centre of mass, white on black. Nothing
here looks at what a network makes of a drawing. Writes

    drawn/in0.npy drawn/labels.npy       u8 (200, 1, 28, 28) and i64 (200): 20 of each digit
    samples/digit-0.png …                112x112: the first way of writing each digit, all by one hand
    samples/hard-4-or-9.png              a 4 whose top is almost closed, by the same hand
"""
import argparse
import os

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 7
PER_DIGIT = 20
SIZE, BOX = 28, 20  # pixels of a picture, and of the digit in it
FINE = 8  # inked on a grid so many times finer, which makes the edges soft

CORNER = True  # the third entry of a point at which the pen turns sharply


def arc(x, y, width, height, start, end):
    """Points on an ellipse, by its centre and half axes; degrees, 0 is right and 90 below."""
    angles = np.radians(np.linspace(start, end, 2 + int(abs(end - start) // 55)))
    return [(x + width * np.cos(a), y + height * np.sin(a)) for a in angles]


# For each digit the ways to write it: a list of strokes, each a list of points. x goes right, y down; 1 is the height.
STYLES = [
    [  # 0: wide, narrow, and closed with a hook inside
        [arc(0.34, 0.5, 0.33, 0.5, -80, -448)],
        [arc(0.26, 0.5, 0.24, 0.5, -60, -425)],
        [arc(0.33, 0.52, 0.32, 0.48, -55, -395) + [(0.47, 0.08), (0.33, 0.14)]],
    ],
    [  # 1: a line, with a flag, and leaning
        [[(0.2, 0), (0.19, 0.5), (0.18, 1)]],
        [[(0.06, 0.2), (0.22, 0, CORNER), (0.21, 0.5), (0.2, 1)]],
        [[(0.34, 0), (0.2, 0.48), (0.04, 1)]],
    ],
    [  # 2: a corner at the foot, a loop there, and a wave as its base
        [[(0.03, 0.22), (0.12, 0.06), (0.32, 0), (0.54, 0.1), (0.57, 0.3), (0.42, 0.58), (0.2, 0.82), (0, 1, CORNER),
          (0.3, 0.98), (0.64, 0.97)]],
        [[(0.05, 0.18), (0.25, 0), (0.5, 0.06), (0.56, 0.28), (0.42, 0.56), (0.2, 0.84), (0.06, 0.95), (0.02, 0.84),
          (0.14, 0.77), (0.32, 0.88), (0.48, 0.98), (0.66, 0.9)]],
        [[(0.02, 0.28), (0.1, 0.08), (0.3, 0), (0.52, 0.08), (0.56, 0.3), (0.38, 0.6), (0.04, 0.97, CORNER),
          (0.2, 0.89), (0.42, 0.97), (0.66, 0.93)]],
    ],
    [  # 3: two bows, a flat top, and a small loop between the bows
        [[(0.05, 0.12), (0.25, 0), (0.48, 0.06), (0.52, 0.24), (0.38, 0.42), (0.2, 0.47, CORNER), (0.44, 0.52),
          (0.58, 0.7), (0.5, 0.92), (0.26, 1), (0, 0.9)]],
        [[(0.05, 0.03), (0.55, 0, CORNER), (0.22, 0.4, CORNER), (0.45, 0.45), (0.6, 0.66), (0.5, 0.92), (0.22, 1),
          (0, 0.92)]],
        [[(0.04, 0.14), (0.22, 0), (0.46, 0.05), (0.5, 0.24), (0.36, 0.42), (0.22, 0.5), (0.18, 0.46), (0.27, 0.45),
          (0.46, 0.54), (0.57, 0.74), (0.44, 0.95), (0.2, 1), (0, 0.9)]],
    ],
    [  # 4: open, closed at the top, and open with a round bend
        [[(0.12, 0.02), (0.05, 0.3), (0, 0.56, CORNER), (0.3, 0.57), (0.64, 0.53)],
         [(0.5, 0.04), (0.47, 0.5), (0.44, 1)]],
        [[(0.42, 0), (0.22, 0.32), (0, 0.64, CORNER), (0.3, 0.66), (0.64, 0.63)],
         [(0.43, 0.02), (0.43, 0.5), (0.41, 1)]],
        [[(0.08, 0.04), (0.03, 0.32), (0.12, 0.48), (0.3, 0.49), (0.5, 0.4)], [(0.56, 0), (0.51, 0.4), (0.46, 1)]],
    ],
    [  # 5: the bar drawn last, all in one stroke, and round like an S
        [[(0.1, 0.02), (0.07, 0.22), (0.05, 0.44, CORNER), (0.25, 0.36), (0.48, 0.44), (0.55, 0.66), (0.42, 0.92),
          (0.2, 1), (0, 0.92)],
         [(0.1, 0.02), (0.35, 0.02), (0.6, 0)]],
        [[(0.58, 0.02), (0.14, 0.03, CORNER), (0.08, 0.4, CORNER), (0.3, 0.38), (0.52, 0.5), (0.54, 0.74), (0.36, 0.96),
          (0.02, 0.98)]],
        [[(0.56, 0.02), (0.3, 0.02), (0.14, 0.08), (0.1, 0.28), (0.22, 0.42), (0.42, 0.52), (0.5, 0.7), (0.4, 0.92),
          (0.18, 1), (0, 0.92)]],
    ],
    [  # 6: a round back, a straight back, and a hook at the top
        [[(0.46, 0), (0.22, 0.2), (0.06, 0.5), (0.04, 0.78), (0.2, 0.99), (0.42, 0.94), (0.52, 0.74), (0.42, 0.56),
          (0.22, 0.58), (0.07, 0.74)]],
        [[(0.3, 0), (0.14, 0.3), (0.04, 0.62), (0.08, 0.9), (0.28, 1), (0.46, 0.88), (0.48, 0.7), (0.34, 0.58),
          (0.16, 0.64), (0.06, 0.78)]],
        [[(0.54, 0.1), (0.42, 0.01), (0.22, 0.12), (0.07, 0.42), (0.03, 0.74), (0.16, 0.97), (0.38, 0.98), (0.52, 0.82),
          (0.46, 0.62), (0.26, 0.56), (0.1, 0.66)]],
    ],
    [  # 7: plain, with a bar through it, with a serif, and round
        [[(0, 0.04), (0.3, 0.04), (0.6, 0.02, CORNER), (0.42, 0.42), (0.24, 1)]],
        [[(0, 0.05), (0.3, 0.03), (0.58, 0.02, CORNER), (0.4, 0.45), (0.22, 1)], [(0.18, 0.52), (0.58, 0.48)]],
        [[(0.02, 0.18), (0.04, 0.03, CORNER), (0.3, 0.05), (0.6, 0, CORNER), (0.36, 0.45), (0.28, 1)]],
        [[(0, 0.1), (0.2, 0.02), (0.48, 0.02), (0.56, 0.12), (0.4, 0.45), (0.22, 1)]],
    ],
    [  # 8: one stroke that crosses itself, two rounds, and one stroke that stays open at the top
        [[(0.5, 0.1), (0.3, 0), (0.1, 0.1), (0.1, 0.28), (0.3, 0.46), (0.5, 0.62), (0.54, 0.84), (0.32, 1), (0.08, 0.9),
          (0.06, 0.7), (0.26, 0.52), (0.46, 0.34), (0.54, 0.16), (0.48, 0.06)]],
        [arc(0.3, 0.24, 0.22, 0.24, -70, -440), arc(0.3, 0.74, 0.28, 0.27, -90, -460)],
        [[(0.52, 0.04), (0.28, 0.01), (0.1, 0.12), (0.14, 0.32), (0.32, 0.48), (0.46, 0.66), (0.44, 0.9), (0.24, 1),
          (0.06, 0.86), (0.14, 0.64), (0.34, 0.42), (0.56, 0.14)]],
    ],
    [  # 9: a straight stem, a curved tail, and a leaning stem
        [[(0.5, 0.14), (0.3, 0), (0.1, 0.1), (0.06, 0.32), (0.22, 0.46), (0.42, 0.38), (0.52, 0.12, CORNER),
          (0.5, 0.5), (0.47, 1)]],
        [[(0.52, 0.16), (0.34, 0), (0.1, 0.1), (0.06, 0.32), (0.22, 0.46), (0.42, 0.4), (0.53, 0.18), (0.54, 0.5),
          (0.44, 0.86), (0.24, 1), (0.06, 0.94)]],
        [arc(0.3, 0.22, 0.24, 0.22, -20, -385) + [(0.48, 0.5), (0.36, 1)]],
    ],
]  # fmt: skip

# Left stroke and stem of this 4 nearly meet, as the round of a 9 does.
HARD = [
    [(0.31, 0.02), (0.18, 0.14), (0.04, 0.3), (0.12, 0.45), (0.3, 0.47), (0.5, 0.38)],
    [(0.52, 0.04), (0.5, 0.4), (0.46, 1)],
]


def curve(points, steps=24):
    """A smooth line through the points (Catmull-Rom): at the ends it leaves in the direction of the next point."""
    points = np.vstack([2 * points[0] - points[1], points, 2 * points[-1] - points[-2]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    pieces = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(points, points[1:], points[2:], points[3:])
    ]
    return np.vstack(pieces + [points[-2:-1]])


def trace(stroke, random):
    """The line of one stroke, its points moved a little: (N, 2)."""
    points = np.array([point[:2] for point in stroke]) + random.normal(0, 0.026, (len(stroke), 2))
    bends = [i for i, point in enumerate(stroke) if len(point) == 3]
    return np.vstack([curve(points[a : b + 1]) for a, b in zip([0] + bends, bends + [len(points) - 1])])


def pressure(count, random):
    """Half the line's width along a stroke, around 1: it swells and fades, and the pen lands and leaves lightly."""
    along = np.linspace(0, 1, count)
    swell = 1 + 0.14 * np.sin(2 * np.pi * (random.uniform(0.5, 1.2) * along + random.uniform()))
    ends = np.minimum(1, 0.72 + 3 * np.minimum(along, 1 - along))
    return swell * ends


def lean(random):
    """A matrix that turns, slants and stretches, as hands differ."""
    angle, slant = np.radians(random.uniform(-12, 12)), random.uniform(-0.15, 0.4)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return turn @ np.array([[1, -slant], [0, 1]]) @ np.diag([random.uniform(0.8, 1.25), 1])


def ink(points, radii):
    """Presses the pen down at each point of a fine grid; coverage 0…1."""
    grid = np.zeros((SIZE * FINE, SIZE * FINE))
    for (x, y), radius in zip(points * FINE, radii * FINE):
        reach = int(radius) + 2
        left, top = max(int(x) - reach, 0), max(int(y) - reach, 0)
        part = grid[top : int(y) + reach + 1, left : int(x) + reach + 1]
        rows, columns = np.ogrid[: part.shape[0], : part.shape[1]]
        distance = np.hypot(rows + top + 0.5 - y, columns + left + 0.5 - x)
        np.maximum(part, np.clip(radius - distance + 0.5, 0, 1), out=part)
    return grid


def blur(grid, sigma):
    reach = np.arange(-int(3 * sigma), int(3 * sigma) + 1)
    kernel = np.exp(-0.5 * (reach / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        grid = np.apply_along_axis(np.convolve, axis, grid, kernel, "same")
    return grid


def draw(strokes, random):
    """One drawing on the fine grid."""
    matrix, pen = lean(random), random.uniform(0.85, 1.65)
    lines = [trace(stroke, random) @ matrix.T for stroke in strokes]
    radii = pen * np.concatenate([pressure(len(line), random) for line in lines])
    points = np.vstack(lines)
    low, high = points.min(0), points.max(0)
    points = (points - (low + high) / 2) * ((BOX - 2 * pen) / (high - low).max()) + SIZE / 2
    grid = ink(points, radii)
    mass = np.array([grid.sum(0), grid.sum(1)]) @ (np.arange(SIZE * FINE) + 0.5) / grid.sum() / FINE
    return blur(ink(points + SIZE / 2 - mass, radii), random.uniform(0.3, 0.5) * FINE)


def shrink(grid, size):
    """Averages the fine grid down to size x size pixels, u8."""
    step = len(grid) // size
    return np.rint(255 * grid.reshape(size, step, size, step).mean((1, 3))).clip(0, 255).astype(np.uint8)


def drawn_set():
    random = np.random.default_rng(SEED)
    labels = random.permutation(np.repeat(np.arange(10), PER_DIGIT))
    pixels = [shrink(draw(STYLES[digit][random.integers(len(STYLES[digit]))], random), SIZE) for digit in labels]
    return np.stack(pixels)[:, None], labels.astype(np.int64)


def save_samples(folder):
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    drawings = {f"digit-{digit}": STYLES[digit][0] for digit in range(10)}
    for name, strokes in (drawings | {"hard-4-or-9": HARD}).items():
        picture = Image.fromarray(shrink(draw(strokes, np.random.default_rng(SEED)), 4 * SIZE))
        picture.save(os.path.join(folder, name + ".png"), optimize=True)


def save_sheet(path, pixels, labels, columns=20):
    """All drawings of the set on one picture, sorted, to look at."""
    sheet = pixels[np.argsort(labels, kind="stable"), 0].reshape(-1, columns, SIZE, SIZE)
    picture = Image.fromarray(sheet.transpose(0, 2, 1, 3).reshape(-1, columns * SIZE))
    picture.resize((picture.width * 2, picture.height * 2), Image.Resampling.NEAREST).save(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default=HERE, metavar="DIR")
    parser.add_argument("--sheet", metavar="FILE.png", help="also write all drawings on one picture")
    arguments = parser.parse_args()
    pixels, labels = drawn_set()
    os.makedirs(os.path.join(arguments.out, "drawn"), exist_ok=True)
    np.save(os.path.join(arguments.out, "drawn", "in0.npy"), pixels)
    np.save(os.path.join(arguments.out, "drawn", "labels.npy"), labels)
    save_samples(os.path.join(arguments.out, "samples"))
    if arguments.sheet:
        save_sheet(arguments.sheet, pixels, labels)


if __name__ == "__main__":
    main()
