#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports whole networks of several kinds, by name, as case folders for `oort verify`.

    pip install -r tools/requirements.txt
    tools/export-network.py --list
    tools/export-network.py minilm gpt2 --out cases      writes cases/minilm and, at another size, cases/minilm@2
    build/oort verify cases/*

The second case shows that a network works at other batches, lengths or picture sizes than the first. Where a plain
trace would freeze sizes, the graph of both is traced for both sizes.
"""
import argparse
import os
import sys
import warnings

import networks
import pnnx_case
import torch


def write(network, folder, one_size):
    """Writes the cases of a network; says which graphs they have."""
    second_folder = None if one_size or network.second is None else folder + "@2"
    if network.symbolic:
        pnnx_case.write_pair(
            network.module, network.first, folder,
            second=network.second, second_folder=second_folder, replayed=network.replayed,
        )  # fmt: skip
        return "one graph for all sizes"
    second = {"second": network.second, "second_folder": second_folder} if second_folder else {}
    kind = pnnx_case.write_case(network.module, network.first, folder, **second)
    return "written" + (f"; second size: {kind} graph" if kind else "")


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
            print(f"{name}: {write(network, folder, arguments.one_size)}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
