#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports a detector of the YOLOv5 kind (tools/yolo_style.py) as a case folder for `oort verify`.

    pip install -r tools/requirements.txt
    tools/export-yolo.py --out cases/yolov5s --second-size 320 416      also writes cases/yolov5s@320x416
    tools/export-yolo.py --out cases/yolov5s-older --older              the slicing stem and heads of early versions

The trace bakes each level's grid of cells into the graph as a constant, so the second case has a graph of its own,
traced for both sizes, that computes the grids from the sizes it meets.
With --older and a second size there is no such graph: pnnx drops slices along an axis of unknown size.
Sizes must be multiples of 32.
"""
import argparse
import os
import sys

import pnnx_case
import torch
import yolo_style


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, metavar="DIR", help="the case folder")
    parser.add_argument("--depth", type=float, default=0.33, help="0.33 is the small network")
    parser.add_argument("--width", type=float, default=0.5, help="0.5 is the small network")
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--older", action="store_true", help="the stem and heads of early versions")
    parser.add_argument("--size", nargs=2, type=int, default=(640, 640), metavar=("H", "W"))
    parser.add_argument("--second-size", nargs=2, type=int, metavar=("H", "W"), help="also writes DIR@HxW")
    parser.add_argument("--batch", type=int, default=1, metavar="N")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    net = yolo_style.Detector(arguments.depth, arguments.width, arguments.classes, arguments.older).eval()
    pnnx_case.calibrate(net, pnnx_case.pictures(2, tuple(arguments.size), seed=2))
    out = arguments.out.rstrip("/")
    second = second_folder = None
    if arguments.second_size:
        second = [pnnx_case.pictures(arguments.batch, tuple(arguments.second_size), seed=1)]
        second_folder = "{}@{}x{}".format(out, *arguments.second_size)
    first = [pnnx_case.pictures(arguments.batch, tuple(arguments.size), seed=0)]
    try:
        kind = pnnx_case.write_case(net, first, out, second=second, second_folder=second_folder)
    except pnnx_case.ConversionError as error:
        print(f"{os.path.basename(out)}: {error}", file=sys.stderr)
        return 1
    print(f"{os.path.basename(out)}: written" + (f"; second size: {kind} graph" if kind else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
