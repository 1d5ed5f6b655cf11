#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/corpus: small networks as pnnx writes them, with inputs and torch's outputs.

    pip install -r test/requirements.txt
    python3 test/make_corpus.py                    all cases, and MANIFEST
    python3 test/make_corpus.py --only conv2d_groups mini_vit
    python3 test/make_corpus.py --list

The cases are declared in test/corpus_cases. What a graph means is checked without Oort: pnnx's own Python rendering
of it must answer as the module did, or the case says why not.
"""
import argparse
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
sys.path.insert(0, HERE)

import pnnx  # noqa: E402
import pnnx_case  # noqa: E402
import torch  # noqa: E402
from corpus_cases import CASES  # noqa: E402

CORPUS = os.path.join(HERE, "corpus")


def write(case, corpus):
    """Writes the case's folders; returns complaints."""
    module = case.module()
    first = case.tensors(case.inputs, salt=0)
    second = None if case.second is None else case.tensors(case.second, salt=1)
    folder = os.path.join(corpus, case.name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder + "@2", ignore_errors=True)
    rendering = pnnx_case.convert(
        module, first, folder, second=second if case.symbolic else None, **case.options
    )
    complaints = finish(case, module, folder, rendering, first)
    if second is not None:
        pnnx_case.copy_graph(folder, folder + "@2")
        complaints += finish(case, module, folder + "@2", rendering, second)
    return complaints


def finish(case, module, folder, rendering, inputs):
    outputs = pnnx_case.reference(module, inputs)
    pnnx_case.save_tensors(folder, inputs, outputs)
    name = os.path.basename(folder)
    faults = pnnx_case.faults(rendering, os.path.join(folder, "model.pnnx.bin"), inputs, outputs)
    if faults and not case.unfaithful:
        return [f"{name}: {fault}" for fault in faults]
    if not faults and case.unfaithful:
        return [f"{name}: is said to be unfaithful ({case.unfaithful}), and is not"]
    return []


def manifest(corpus):
    """What made the corpus, and the operators of each case."""
    lines = [f"torch {torch.__version__.split('+')[0]}", f"pnnx {pnnx.__version__}"]
    for name in sorted(os.listdir(corpus)):
        param = os.path.join(corpus, name, "model.pnnx.param")
        if os.path.exists(param):
            types = {kind for kind, _ in pnnx_case.operators(param)} - {"pnnx.Input", "pnnx.Output"}
            lines.append(f"{name}: {' '.join(sorted(types))}")
    with open(os.path.join(corpus, "MANIFEST"), "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", metavar="CASE", help="these cases only")
    parser.add_argument("--list", action="store_true", help="prints the names of the cases")
    parser.add_argument("--out", default=CORPUS, metavar="DIR")
    arguments = parser.parse_args()
    names = arguments.only or sorted(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"no such case: {' '.join(unknown)}")
    if arguments.list:
        print("\n".join(names))
        return 0
    torch.set_num_threads(1)
    complaints = []
    for name in names:
        try:
            found = write(CASES[name], arguments.out)
        except Exception as error:
            found = [f"{name}: {type(error).__name__}: {error}"]
        print(f"{name}: {'; '.join(found) if found else 'ok'}", flush=True)
        complaints += found
    manifest(arguments.out)
    print(f"{len(names)} cases, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
