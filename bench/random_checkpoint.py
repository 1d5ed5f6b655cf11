#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a checkpoint of a known shape with random bf16 weights, so that a server can be measured without downloads.

    bench/random_checkpoint.py llama2-7b FOLDER

FOLDER becomes one of Hugging Face's kind. Its tokenizer is the storyteller's, with made-up words for the tokens that
only the larger model has: an answer of random weights is then text that a client can time.
"""
import argparse
import json
import pathlib
import shutil

import numpy as np

STORYTELLER = pathlib.Path(__file__).resolve().parent.parent / "models/storyteller"
# vocabulary, width, layers, heads, key heads, width of a head, hidden width, context, base of the rotary angles
SHAPES = {
    "smollm2-135m": (49152, 576, 30, 9, 3, 64, 1536, 8192, 1e5),
    "llama2-7b": (32000, 4096, 32, 32, 32, 128, 11008, 4096, 1e4),
    "llama3-8b": (128256, 4096, 32, 32, 8, 128, 14336, 8192, 5e5),
}


def config_of(shape):
    vocabulary, width, layers, heads, key_heads, head, hidden, context, base = shape
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
        "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": key_heads, "head_dim": head, "hidden_act": "silu",
        "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": base, "tie_word_embeddings": False,
        "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16",
    }


def tensors_of(shape):
    """(name, sizes) of each tensor, in the order of the file."""
    vocabulary, width, layers, heads, key_heads, head, hidden, _, _ = shape
    yield "model.embed_tokens.weight", (vocabulary, width)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (width,)
        yield prefix + "self_attn.q_proj.weight", (heads * head, width)
        yield prefix + "self_attn.k_proj.weight", (key_heads * head, width)
        yield prefix + "self_attn.v_proj.weight", (key_heads * head, width)
        yield prefix + "self_attn.o_proj.weight", (width, heads * head)
        yield prefix + "post_attention_layernorm.weight", (width,)
        yield prefix + "mlp.gate_proj.weight", (hidden, width)
        yield prefix + "mlp.up_proj.weight", (hidden, width)
        yield prefix + "mlp.down_proj.weight", (width, hidden)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (vocabulary, width)


def write_tokenizer(folder, vocabulary):
    tokenizer = json.loads((STORYTELLER / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    first = 1 + max([*words.values(), *(token["id"] for token in tokenizer["added_tokens"])])
    words.update({f"word{token}": token for token in range(first, vocabulary)})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(STORYTELLER / "tokenizer_config.json", folder / "tokenizer_config.json")


def write_weights(path, shape, seed):
    header, offset = {}, 0
    for name, sizes in tensors_of(shape):
        end = offset + 2 * int(np.prod(sizes))
        header[name] = {"dtype": "BF16", "shape": list(sizes), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # One pool of numbers of which each tensor takes some from another place: as good as random, and soon written.
    pool = np.random.default_rng(seed).normal(0, 0.02, 1 << 24).astype(np.float32).view(np.uint32)
    pool = (pool >> 16).astype(np.uint16)
    one = np.uint16(0x3F80)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        start = 0
        for _, sizes in tensors_of(shape):
            count = int(np.prod(sizes))
            if len(sizes) == 1:
                file.write(np.full(count, one).tobytes())
                continue
            start = (start + 7919) % pool.size
            left = count
            while left > 0:
                part = pool[start:start + left]
                file.write(part.tobytes())
                left -= part.size
                start = (start + part.size) % pool.size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    shape = SHAPES[options.shape]
    (options.folder / "config.json").write_text(json.dumps(config_of(shape), indent=1) + "\n")
    write_tokenizer(options.folder, shape[0])
    write_weights(options.folder / "model.safetensors", shape, options.seed)


if __name__ == "__main__":
    main()
