# SPDX-License-Identifier: MIT
"""The texts of corpus.py as the tokens that the storyteller learns from."""
import random

import corpus
from grammar import fill

SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>"]
BEGIN, END, USER, ASSISTANT = range(4)
CONTEXT = 512


def texts(seed, count):
    """Conversations as (role, text) lists, and some stories without one around them, for --raw."""
    rng = random.Random(seed)
    for _ in range(count):
        if rng.random() < 0.15:
            slots, _, shape, _ = corpus.story(rng)
            yield [(None, fill(shape, slots))]
        else:
            yield [((USER, ASSISTANT)[i % 2], text) for i, text in enumerate(corpus.talk(rng))]


def encode(tokenizer, sample):
    ids = [BEGIN]
    for role, text in sample:
        ids += ([] if role is None else [role]) + tokenizer.encode(text, add_special_tokens=False).ids + [END]
    return ids
