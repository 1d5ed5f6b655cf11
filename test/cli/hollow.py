# SPDX-License-Identifier: MIT
"""Models for tests that need large ones: all weights are zero, so that their file is a hole."""
import json
import shutil
import struct


def write_hollow_model(folder, layers=16, hidden=512, feed=2048, vocabulary=1000, dtype="F32", words=None):
    """A llama. Returns the bytes of its weights and those of the largest. With `words`, a folder, it has the tokenizer
    and the chat template from there, and says any of its tokens with the same probability."""
    folder.mkdir()
    config = dict(
        model_type="llama", vocab_size=vocabulary, hidden_size=hidden, intermediate_size=feed, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=8, tie_word_embeddings=True, max_position_embeddings=8192,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json") if words else ():
        shutil.copy(words / name, folder)
    shapes = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden]}
    for i in range(layers):
        stem = f"model.layers.{i}."
        shapes |= {f"{stem}{norm}_layernorm.weight": [hidden] for norm in ("input", "post_attention")}
        shapes |= {f"{stem}self_attn.{part}_proj.weight": [hidden, hidden] for part in "qkvo"}
        shapes |= {f"{stem}mlp.{part}_proj.weight": [feed, hidden] for part in ("gate", "up")}
        shapes[f"{stem}mlp.down_proj.weight"] = [hidden, feed]
    header, offset, largest = {}, 0, 0
    for name, shape in shapes.items():
        size = {"F32": 4, "BF16": 2}[dtype] * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[offset, offset + size])
        offset += size
        largest = max(largest, size)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    return offset, largest
