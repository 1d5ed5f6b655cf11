#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports torchvision models, by name, as case folders for `oort verify`.

    pip install -r tools/requirements.txt
    tools/export-torchvision.py resnet18 mobilenet_v2 --out cases
    tools/export-torchvision.py resnet18 --out cases --second-size 192 256     also writes cases/resnet18@192x256
    build/oort verify cases/*

Weights are seeded, nothing is downloaded: a network need not be trained to be compared with torch. Batch norms get
the statistics of a few pictures, so that the input reaches the output as in a trained network (with arbitrary
statistics it fades, and a wrong layer would go unseen), and heads that torchvision starts at zero are filled.
The second size shows whether a graph works at another input size than the traced one. Where the trace froze sizes
(windows of a Swin transformer reshape to fixed numbers), the second case has a graph of its own, traced for both sizes.
"""
import argparse
import os
import sys

import networks
import pnnx_case


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog="Names: torchvision.models.list_models()"
    )
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--out", required=True, metavar="DIR", help="writes DIR/NAME")
    parser.add_argument("--size", nargs=2, type=int, default=(224, 224), metavar=("H", "W"))
    parser.add_argument(
        "--second-size", nargs=2, type=int, metavar=("H", "W"), help="also writes DIR/NAME@HxW"
    )
    parser.add_argument(
        "--symbolic", action="store_true", help="the second case gets a graph for both sizes even where one for one "
                                                "would do"
    )
    parser.add_argument("--batch", type=int, default=1, metavar="N")
    arguments = parser.parse_args()

    failed = 0
    for name in arguments.names:
        try:
            net = pnnx_case.Flat(networks.vision(name, tuple(arguments.size))).eval()
            second = second_folder = None
            if arguments.second_size:
                second = [pnnx_case.pictures(arguments.batch, tuple(arguments.second_size), seed=1)]
                second_folder = os.path.join(
                    arguments.out, "{}@{}x{}".format(name, *arguments.second_size)
                )
            kind = pnnx_case.write_case(
                net,
                [pnnx_case.pictures(arguments.batch, tuple(arguments.size), seed=0)],
                os.path.join(arguments.out, name),
                second=second,
                second_folder=second_folder,
                symbolic=arguments.symbolic,
            )
            print(f"{name}: written" + (f"; second size: {kind} graph" if kind else ""), flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
