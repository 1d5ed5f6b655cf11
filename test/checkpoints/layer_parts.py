# SPDX-License-Identifier: MIT
"""What becomes of fused tensors, of latent attention, state spaces and streams, for make_checkpoints.py."""
import numpy as np
import torch

from gguf_metadata import head_counts
from hybrids import state_sizes


def ungrouped(weight, config):
    """Queries, keys and values from rows that have them for each head of keys."""
    heads, kv_heads = head_counts(config)
    size = config.hidden_size // heads
    groups = weight.reshape(kv_heads, heads // kv_heads + 2, size, *weight.shape[1:])
    return [part.reshape(-1, *weight.shape[1:]) for part in (groups[:, :-2], groups[:, -2], groups[:, -1])]


def mixer_weight(name, weight, config):
    if name.endswith(".A_log"):
        return -np.exp(weight)[:, None]
    if name.endswith(".D"):
        return weight[:, None]
    if name.endswith("conv1d.weight"):
        return weight[:, 0]
    is_norm = name.endswith(("mixer.norm.weight", "mamba.norm.weight"))
    return weight.reshape(state_sizes(config)[2], -1) if is_norm else weight


def latent_parts(name, weight, config):
    """What Oort makes of a tensor of latent attention: names below self_attn and their rows."""
    heads, plain = config.num_attention_heads, config.qk_nope_head_dim
    turned, value = config.qk_rope_head_dim, config.v_head_dim
    if name in ("q_proj", "q_b_proj"):
        parts = weight.unflatten(0, (heads, -1)).split([plain, turned], dim=1)
        return {"q_plain_proj": parts[0].flatten(0, 1), "q_turned_proj": parts[1].flatten(0, 1)}
    if name == "kv_a_proj_with_mqa":
        parts = weight.split([config.kv_lora_rank, turned])
        return {"kv_a_proj": parts[0], "k_turned_proj": parts[1]}
    if name == "kv_b_proj":
        keys, values = weight.unflatten(0, (heads, -1)).split([plain, value], dim=1)
        return {"k_b_proj": keys.transpose(1, 2).flatten(0, 1), "v_b_proj": values.flatten(0, 1)}
    return {}


def mixer_parts(name, weight, config):
    """The same of a tensor of a state space, below the layer. GGUF has other rates, so that these are left out."""
    heads, head_dim, groups, size = state_sizes(config)
    inner = heads * head_dim
    stem, _, ending = name.rpartition(".")
    if stem == "mixer.in_proj":
        rows = weight.split([inner, inner + 2 * groups * size, heads])
        return {f"mixer.{part}_proj.{ending}": part_rows for part, part_rows in zip(("gate", "conv", "step"), rows)}
    if stem == "mixer.conv1d":
        return {f"mixer.conv.{ending}": weight.flatten()}
    names = {"A_log": None, "D": "mixer.skip.weight", "dt_bias": "mixer.step.bias"}
    name = names.get(ending, name)
    return {name: weight} if name else {}


def with_streams(state, config):
    """As llama.cpp's converter has several residual streams: the projections of all are one tensor. Layers that share
    keys and values have some in real files, which nobody reads."""
    state = dict(state)
    for stem in ("model.altup_projections", "model.altup_unembed_projections"):
        parts = [state.pop(f"{stem}.{i}.weight") for i in range(config.altup_num_inputs - 1)]
        state[stem + ".weight"] = torch.stack(parts)
    for layer in range(config.num_hidden_layers - config.num_kv_shared_layers, config.num_hidden_layers):
        for part in ("k_proj", "v_proj", "k_norm"):
            name = f"model.layers.{{}}.self_attn.{part}.weight"
            state[name.format(layer)] = state[name.format(0)]
    return state.items()
