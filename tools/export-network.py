#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports whole networks of several kinds, by name, as case folders for `oort verify`.

    pip install -r tools/requirements.txt
    tools/export-network.py --list
    tools/export-network.py minilm gpt2 --out cases      writes cases/minilm and, at another size, cases/minilm@2
    build/oort verify cases/*

The second case shows that a network works at other batches, lengths or picture sizes than the traced one. Where the
trace froze sizes, it has a graph of its own, traced for both sizes.
"""
import argparse
import os
import sys
import warnings

import networks
import pnnx_case
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--out", metavar="DIR", help="writes DIR/NAME and DIR/NAME@2")
    parser.add_argument("--one-size", action="store_true", help="writes no second case")
    parser.add_argument("--list", action="store_true", help="prints the names")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(networks.NETWORKS))
        return 0
    if not arguments.out:
        parser.error("--out is missing")
    unknown = [name for name in arguments.names if name not in networks.NETWORKS]
    if unknown:
        parser.error(f"no such network: {' '.join(unknown)}; there are {', '.join(networks.NETWORKS)}")

    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    torch.set_grad_enabled(False)
    failed = 0
    for name in arguments.names or networks.NETWORKS:
        folder = os.path.join(arguments.out, name)
        try:
            network = networks.NETWORKS[name]()
            second = {} if arguments.one_size else {"second": network.second, "second_folder": folder + "@2"}
            kind = pnnx_case.write_case(
                network.module, network.first, folder, symbolic=network.symbolic, replayed=network.replayed, **second
            )
            print(f"{name}: written" + (f"; second size: {kind} graph" if kind else ""), flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
