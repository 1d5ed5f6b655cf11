#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws load.svg: how long requests take at `oort serve` by how many come a second, from none to more than it can
answer.

    python3 docs/images/make_load_svg.py MODEL [--oort build/oort] [--requests 24] [--out docs/images/load.svg]

First 16 clients that ask again and again tell how many requests a second the server answers; then requests come at
random moments, at a fifth of that rate up to a fifth more than all of it. Standard library only.
"""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from serving import Program, run_json  # noqa: E402

PARTS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--oort", default=ROOT / "build" / "oort")
    parser.add_argument("--requests", type=int, default=24, help="of each load")
    parser.add_argument("--out", default=pathlib.Path(__file__).with_name("load.svg"))
    arguments = parser.parse_args()
    lengths = ["--prompt-tokens", 64, "--new-tokens", 32, "--requests", arguments.requests]
    with Program(arguments.oort, arguments.model) as server:
        ask = [arguments.oort, "bench-serve", server.url, *lengths, "--json"]
        most = run_json(*ask, "--concurrency", 16)["loads"][-1]["requests_per_second"]
        rates = ",".join(f"{most * part:.3g}" for part in PARTS)
        # Another seed: what was asked before is in the cache.
        for load in run_json(*ask, "--rate", rates, "--seed", 2, "--svg", arguments.out)["loads"]:
            print(load)


if __name__ == "__main__":
    main()
