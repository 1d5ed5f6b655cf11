# SPDX-License-Identifier: MIT
"""Files of llama2.c, in its three formats and KuiperLLama's own, for make_checkpoints.py."""
import struct

import numpy as np
import torch


def permuted(weight, heads):
    """Rows of each head so that pairs of the rotary embedding stand side by side."""
    size = weight.shape[0] // heads
    return weight.reshape(heads, 2, size // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_llama2c(path, model, version, group=8):
    """As llama2.c's export.py lays it out; what the file holds is put into the model."""
    config, weights = model.config, model.state_dict()
    layers, heads, kv_heads = config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads
    sizes = [config.hidden_size, config.intermediate_size, layers, heads, kv_heads, config.vocab_size,
             config.max_position_embeddings]
    file = open(path, "wb")

    def turned(name, values):
        if "q_proj" not in name and "k_proj" not in name:
            return np.ascontiguousarray(values)
        return np.ascontiguousarray(permuted(values, heads if "q_proj" in name else kv_heads))

    def put(name, quantize=False):
        weight = weights[name].numpy()
        if not quantize:
            file.write(turned(name, weight).tobytes())
            return
        groups = weight.reshape(-1, group)
        scale = (np.abs(groups).max(axis=1, keepdims=True) / 127).astype(np.float32)
        q = np.round(groups / scale).astype(np.int8)
        weights[name].copy_(torch.from_numpy(q * scale).reshape(weight.shape))
        # A group never leaves its row, so rows can be turned after they were quantized.
        scales = turned(name, scale.reshape(weight.shape[0], -1))
        file.write(turned(name, q.reshape(weight.shape)).tobytes() + scales.tobytes())

    def put_layers(stem, quantize=False):
        for i in range(layers):
            put(f"model.layers.{i}.{stem}.weight", quantize)

    attention = [f"self_attn.{part}_proj" for part in "qkvo"]
    feed = ["mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"]
    if version == 0:
        sizes[5] = -sizes[5]
        file.write(struct.pack("<7i", *sizes))
        put("model.embed_tokens.weight")
        put_layers("input_layernorm")
        for stem in attention:
            put_layers(stem)
        put_layers("post_attention_layernorm")
        for stem in feed:
            put_layers(stem)
        put("model.norm.weight")
        file.write(np.full(2 * sizes[6] * (sizes[0] // heads // 2), 7.0, dtype=np.float32).tobytes())
        put("lm_head.weight")
    elif version == 3:  # KuiperLLama's: int8 first, embeddings and norms behind it
        sizes[5] = -sizes[5]
        file.write(struct.pack("<8i", *sizes, group))
        for stem in attention + feed:
            put_layers(stem, True)
        put("lm_head.weight", True)
        put("model.embed_tokens.weight")
        put_layers("input_layernorm")
        put_layers("post_attention_layernorm")
        put("model.norm.weight")
    else:
        header = struct.pack("<Ii7iB", 0x616B3432, version, *sizes, 0)
        if version == 2:
            header += struct.pack("<i", group)
        file.write(header.ljust(256, b"\0"))
        quantize = version == 2
        put_layers("input_layernorm")
        put_layers("post_attention_layernorm")
        put("model.norm.weight")
        put("model.embed_tokens.weight", quantize)
        for stem in attention + feed:
            put_layers(stem, quantize)
        put("lm_head.weight", quantize)
    file.close()
