#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/weights/weight_blocks/: blocks of random bytes in every format of GGUF that Oort reads, and the numbers
that the package gguf (pip install gguf) says they hold.

    test/weights/make_weight_blocks.py

Scales are f16 numbers of all sizes; codes, masks and scales of groups are any bytes.
"""
import pathlib

import gguf
import numpy as np

ROWS, COLUMNS = 3, 512
# Where the f16 numbers of a block stand.
FORMATS = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "MXFP4": [],
    "TQ1_0": [52],
    "TQ2_0": [64],
    "IQ1_S": [0],
    "IQ1_M": [],
    "IQ2_XXS": [0],
    "IQ2_XS": [0],
    "IQ2_S": [0],
    "IQ3_XXS": [0],
    "IQ3_S": [0],
}


def main():
    folder = pathlib.Path(__file__).parent / "weight_blocks"
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(6)
    for name, halves in FORMATS.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=np.uint8)
        for at in halves:
            # Normal and subnormal, of either sign; no infinities.
            scales = (random.integers(0, 0x7C00, len(blocks)) | random.integers(0, 2,
                                                                                len(blocks)) << 15).astype(np.uint16)
            scales[0] &= 0x83FF
            blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
        if name == "IQ1_M":
            blocks[:, 55] &= 0xBF  # bit 14 of the f16 number that four words share: no infinities
        rows = blocks.reshape(ROWS, -1)
        values = gguf.dequantize(rows, kind).astype(np.float32)
        np.save(folder / f"{name.lower()}.blocks.npy", rows)
        np.save(folder / f"{name.lower()}.values.npy", values)


if __name__ == "__main__":
    main()
