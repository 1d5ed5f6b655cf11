#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny language models of every family that Oort reads, with random weights, and what transformers says of them.

    test/checkpoints/make_checkpoints.py [FAMILY...]

FAMILY/config.json, *.safetensors   as transformers saves them
FAMILY.gguf                         the same weights, laid out as llama.cpp's converter does
FAMILY.json                         frequencies of the rotary embedding, some elements of all weights under the names
                                    of the llama layout, for some tokens the logits in f32, and greedy answers
llama2c_v{0,1,2}.bin, tokenizer.bin a llama in the three formats of llama2.c
llama2c_v3.bin                      the same in KuiperLLama's own

Needs torch, transformers, safetensors and gguf.
"""
import json
import pathlib
import shutil
import struct
import sys

import gguf
import numpy as np
import torch
import transformers

from delta_nets import delta_models, delta_parts, gated_query, is_offset_norm, with_delta
from gguf_metadata import head_counts, write_metadata
from hybrids import hybrid_models, scaled, shared_parts
from layer_parts import latent_parts, mixer_parts, mixer_weight, ungrouped, with_streams
from llama2c_files import permuted, write_llama2c
from mxfp4_files import gguf_blocks, pack_folder, packed_parts, round_experts
from tensor_names import LAYER, MIXER, TOP, name_parts
from whole_folders import save_whole_gemma3n, save_whole_llama4, save_whole_qwen3_5

HERE = pathlib.Path(__file__).parent
VOCABULARY = 40
TOKENS = [3, 17, 29, 5, 5, 38, 11, 0, 22, 31, 8, 14]
PROMPTS = [[3, 17, 29], [5], [22, 31, 8, 14, 9, 9, 30], [38, 11]]
COMMON = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    initializer_range=0.3,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
)
OLD = {key: value for key, value in COMMON.items() if key != "num_key_value_heads"}
MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=32)
UNTRUNCATED = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0,
                   truncate=False)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.1], long_factor=[1.5, 3.0])


# Layers whose norms are scaled as the file's: 1 + w is gemma's way.
OFFSET_NORMS = ("gemma", "gemma2", "gemma3_text", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")


def rope(theta, scaling=None, **more):
    return dict(rope_parameters={"rope_type": "default"} | (scaling or {}) | {"rope_theta": theta} | more)


GPT_OSS = (
    COMMON
    | dict(hidden_size=64, intermediate_size=32, head_dim=16, num_local_experts=6, num_experts_per_tok=4,
           sliding_window=4, initializer_range=0.5)
    | rope(150000.0, UNTRUNCATED)
)


LLAMA4 = (
    COMMON
    | dict(num_hidden_layers=4, head_dim=8, intermediate_size=20, intermediate_size_mlp=24, num_local_experts=6,
           num_experts_per_tok=2, interleave_moe_layer_step=2)
    | dict(attention_chunk_size=5, floor_scale=4, attn_scale=0.3)
    | rope(500000.0, LLAMA3)
)


MLA = dict(kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, num_hidden_layers=3,
           first_k_dense_replace=1, moe_intermediate_size=16)
MSCALE = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, mscale=0.7, mscale_all_dim=0.7)
DEEPSEEK = {key: value for key, value in COMMON.items() if key != "num_key_value_heads"} | MLA


MAMBA2 = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, state_size=12,
              conv_kernel=4, initializer_range=0.3, bos_token_id=1, eos_token_id=2, pad_token_id=None)


GEMMA3N = (
    COMMON
    | dict(head_dim=16, sliding_window=4, num_hidden_layers=6, num_kv_shared_layers=3,
           layer_types=2 * ["sliding_attention", "sliding_attention", "full_attention"])
    | dict(altup_num_inputs=3, altup_active_idx=1, laurel_rank=8, hidden_size_per_layer_input=8)
    | dict(vocab_size_per_layer_input=36, activation_sparsity_pattern=[0.8, 0.6, 0.0, 0.0, 0.0, 0.0])
    | dict(final_logit_softcapping=3.0)
    | dict(rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1e6),
                                sliding_attention=dict(rope_type="default", rope_theta=10000.0)))
)


# family of the GGUF, class of the config, what differs, dtype, bytes of a shard
MODELS = {
    "llama": ("llama", transformers.LlamaConfig, COMMON | dict(rms_norm_eps=1e-5) | rope(500000.0, LLAMA3), "float32",
              None),
    "mistral": ("llama", transformers.MistralConfig, COMMON | dict(sliding_window=5) | rope(10000.0), "float32",
                "12KB"),
    "qwen2": ("qwen2", transformers.Qwen2Config, COMMON | dict(tie_word_embeddings=True, eos_token_id=[2, 7])
              | rope(1e6, YARN), "bfloat16", None),
    "qwen3": ("qwen3", transformers.Qwen3Config, COMMON | dict(head_dim=12) | rope(1e6), "float32", None),
    "gemma": ("gemma", transformers.GemmaConfig, COMMON | dict(head_dim=10) | rope(10000.0), "float32", None),
    "gemma2": (
        "gemma2",
        transformers.Gemma2Config,
        COMMON | dict(head_dim=12, query_pre_attn_scalar=12, sliding_window=4, attn_logit_softcapping=5.0,
                      final_logit_softcapping=3.0) | rope(10000.0),
        "float16",
        None,
    ),
    "phi3": (
        "phi3",
        transformers.Phi3Config,
        COMMON | dict(original_max_position_embeddings=8, sliding_window=9)
        | rope(10000.0, LONG, partial_rotary_factor=0.5), "float32",
        None,
    ),
    "gpt2": (
        "gpt2",
        transformers.GPT2Config,
        dict(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=24, initializer_range=0.3,
             bos_token_id=1, eos_token_id=2),
        "float32",
        None,
    ),
    "olmo2": ("olmo2", transformers.Olmo2Config, COMMON | rope(500000.0), "float32", None),
    "phi": ("phi2", transformers.PhiConfig, COMMON | dict(num_key_value_heads=4)
            | rope(10000.0, partial_rotary_factor=0.5), "float32", None),
    "stablelm": ("stablelm", transformers.StableLmConfig, COMMON | dict(use_qkv_bias=True)
                 | rope(10000.0, partial_rotary_factor=0.25), "float32", None),
    "stablelm_parallel": (
        "stablelm",
        transformers.StableLmConfig,
        COMMON | dict(use_parallel_residual=True) | rope(10000.0, partial_rotary_factor=0.5),
        "float32",
        None,
    ),
    "gpt_neox": ("gptneox", transformers.GPTNeoXConfig, OLD | rope(10000.0, partial_rotary_factor=0.25), "float32",
                 None),
    "falcon": ("falcon", transformers.FalconConfig, OLD | dict(ffn_hidden_size=24) | rope(10000.0), "float32", None),
    "falcon_new": (
        "falcon",
        transformers.FalconConfig,
        OLD | dict(ffn_hidden_size=24, new_decoder_architecture=True, num_kv_heads=2, bias=True) | rope(10000.0),
        "float32",
        None,
    ),
    "starcoder2": ("starcoder2", transformers.Starcoder2Config, COMMON | dict(sliding_window=None) | rope(100000.0),
                   "float32", None),
    "smollm3": ("smollm3", transformers.SmolLM3Config, COMMON | dict(num_hidden_layers=4) | rope(2e6), "float32", None),
    "granite": (
        "granite",
        transformers.GraniteConfig,
        COMMON | dict(embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2, logits_scaling=4.0)
        | rope(10000.0), "float32",
        None,
    ),
    "cohere": ("command-r", transformers.CohereConfig, COMMON | dict(logit_scale=0.25) | rope(10000.0), "float32",
               None),
    "mamba2": ("mamba2", transformers.Mamba2Config, MAMBA2 | dict(n_groups=2), "float32", None),
    "mamba2_tied": ("mamba2", transformers.Mamba2Config, MAMBA2
                      | dict(n_groups=1, use_bias=True, use_conv_bias=False, conv_kernel=2, tie_word_embeddings=True),
                      "bfloat16", None),
    "mixtral": ("llama", transformers.MixtralConfig, COMMON | dict(num_local_experts=4, num_experts_per_tok=2)
                | rope(1e6), "float32", None),
    "qwen2_moe": (
        "qwen2moe",
        transformers.Qwen2MoeConfig,
        COMMON | MOE | dict(shared_expert_intermediate_size=20, norm_topk_prob=False) | rope(1e6),
        "float32",
        None,
    ),
    "qwen3_moe": ("qwen3moe", transformers.Qwen3MoeConfig, COMMON | MOE | dict(head_dim=12, norm_topk_prob=True)
                  | rope(1e6), "bfloat16", None),
    "olmoe": ("olmoe", transformers.OlmoeConfig, COMMON | dict(num_experts=5, num_experts_per_tok=3) | rope(10000.0),
              "float32", None),
    "deepseek_v2": (
        "deepseek2",
        transformers.DeepseekV2Config,
        DEEPSEEK | dict(q_lora_rank=None, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2)
        | rope(10000.0, MSCALE), "float32",
        None,
    ),
    "deepseek_v2_groups": (
        "deepseek2",
        transformers.DeepseekV2Config,
        DEEPSEEK
        | dict(q_lora_rank=20, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2)
        | dict(topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=4.0)
        | rope(10000.0),
        "bfloat16",
        None,
    ),
    "deepseek_v3": (
        "deepseek2",
        transformers.DeepseekV3Config,
        DEEPSEEK | dict(num_key_value_heads=4, q_lora_rank=20, n_routed_experts=8, n_shared_experts=1,
                        num_experts_per_tok=3, n_group=4, topk_group=2) | rope(10000.0, MSCALE),
        "float32",
        None,
    ),
    "llama4_text": ("llama4", transformers.Llama4TextConfig, LLAMA4, "float32", None),
    "llama4_text_plain": ("llama4", transformers.Llama4TextConfig, LLAMA4
                          | dict(hidden_size=16, intermediate_size=8, num_hidden_layers=2, use_qk_norm=False,
                                 num_local_experts=128, num_experts_per_tok=1), "bfloat16", None),
    "gpt_oss": ("gpt-oss", transformers.GptOssConfig, GPT_OSS, "float32", None),
    "gpt_oss_mxfp4": ("gpt-oss", transformers.GptOssConfig, GPT_OSS, "bfloat16", None),
    "gemma3n_text": ("gemma3n", transformers.Gemma3nTextConfig, GEMMA3N, "bfloat16", None),
    "gemma3_text": (
        "gemma3",
        transformers.Gemma3TextConfig,
        COMMON
        | dict(head_dim=12, query_pre_attn_scalar=12, sliding_window=4, num_hidden_layers=3,
               layer_types=["sliding_attention", "sliding_attention", "full_attention"])
        | dict(
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=2.0, rope_theta=1e6),
                sliding_attention=dict(rope_type="default", rope_theta=10000.0)
            )
        ),
        "bfloat16",
        None,
    ),
} | hybrid_models(COMMON, rope) | delta_models(COMMON, rope, MOE)


def make_model(config, dtype):
    """Random weights that are numbers of `dtype`, in f32; biases and norms are random too."""
    torch.manual_seed(6)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.2 + (0 if name.endswith("bias")
                                                               or config.model_type in OFFSET_NORMS else 1))
            elif name.endswith("_bias"):  # of experts
                weight.copy_(torch.randn_like(weight) * 0.2)
            weight.copy_(weight.to(getattr(torch, dtype)))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.2)
    return model


def save_folder(model, folder, dtype, shard):
    shutil.rmtree(folder, ignore_errors=True)
    saved = transformers.AutoModelForCausalLM.from_config(model.config).to(getattr(torch, dtype))
    saved.load_state_dict(model.state_dict())
    saved.save_pretrained(folder, **(dict(max_shard_size=shard) if shard else {}))


def rotary_of(model):
    """The frequencies, those for long sequences where there are such, and the magnitude."""
    rotary = getattr(model.base_model, "rotary_emb", None) or getattr(getattr(model, "model", None), "rotary_emb", None)
    if rotary is None:
        return {}
    if hasattr(rotary, "full_attention_inv_freq"):
        usual = dict(frequencies=rotary.full_attention_inv_freq.tolist(),
                     magnitude=float(rotary.full_attention_attention_scaling))
        return usual | dict(local_frequencies=rotary.sliding_attention_inv_freq.tolist())
    numbers = dict(frequencies=rotary.inv_freq.tolist(), magnitude=float(rotary.attention_scaling))
    if rotary.config.rope_parameters["rope_type"] == "longrope":
        function = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["longrope"]
        long, magnitude = function(rotary.config, "cpu", seq_len=1000)
        numbers |= dict(long_frequencies=long.tolist(), long_magnitude=magnitude)
    return numbers


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].tolist()


def greedy(model, prompt, count=12):
    """The most likely tokens behind a prompt, each from a pass over the whole text."""
    text = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    return text[len(prompt) :]


PERMUTED = ("llama", "smollm3", "granite", "granitehybrid")  # architectures of GGUF whose q and k are reordered


def state_of(model):
    """All weights by name; those of experts under the names that they would have in a module of their own."""
    alternating = model.config.model_type == "gpt_oss"
    for name, weight in model.state_dict().items():
        if name.endswith((".sinks", ".correct_output_scale")):
            yield name + ".weight", weight
        elif name.endswith("gate.e_score_correction_bias"):
            yield name.replace("gate.e_score_correction_bias", "gate_correction.bias"), weight
        elif alternating and name.endswith(("experts.gate_up_proj", "experts.gate_up_proj_bias")):
            for i, part in enumerate(("gate_proj", "up_proj")):
                rows = weight[..., i::2]
                ending = "bias" if name.endswith("bias") else "weight"
                stem = name.removesuffix("_bias").replace("gate_up_proj", part)
                yield f"{stem}.{ending}", (rows if ending == "bias" else rows.transpose(1, 2)).contiguous()
        elif alternating and name.endswith("experts.down_proj_bias"):
            yield name.replace("_bias", ".bias"), weight
        elif alternating and name.endswith("experts.down_proj"):
            yield name + ".weight", weight.transpose(1, 2).contiguous()
        elif "feed_forward.experts." in name:  # (experts, inputs, outputs), those of gate before those of up
            turned = weight.transpose(1, 2)
            names = ("gate_proj", "up_proj") if name.endswith("gate_up_proj") else ("down_proj",)
            parts = dict(zip(names, turned.chunk(len(names), dim=1)))
            for part, rows in parts.items():
                yield f"{name.rpartition('.')[0]}.{part}.weight", rows.contiguous()
        elif ".shared_mlp." in name:
            yield from shared_parts(name, weight, model.config)
        elif name.endswith("experts.gate_up_proj"):
            for part, rows in zip(("gate_proj", "up_proj"), weight.chunk(2, dim=1)):
                yield name.replace("gate_up_proj", f"{part}.weight"), rows.contiguous()
        elif name.endswith("experts.down_proj"):
            yield name + ".weight", weight
        else:
            yield name, weight


def gguf_name(name, family, config):
    layer, stem, ending = name_parts(name)
    if layer is None:
        return f"{TOP[stem]}.{ending}"
    if ending in MIXER:
        return f"blk.{layer}.{MIXER[ending]}"
    ours = LAYER[stem]
    renamed = ("gemma2", "gemma3", "gemma3n", "olmo2", "gpt-oss", "qwen3next")
    if family in renamed and stem == "post_attention_layernorm":
        ours = "post_attention_norm"
    if family == "falcon" and config.new_decoder_architecture and stem in ("input_layernorm",
                                                                           "post_attention_layernorm"):
        ours = "attn_norm" if stem == "post_attention_layernorm" else "attn_norm_2"
    return f"blk.{layer}.{ours}.{ending}"


def gguf_weight(name, weight, config, family):
    if family == "falcon-h1":
        weight = scaled(name, weight, config)
    if family == "mamba2" or ".mamba." in name:
        return mixer_weight(name, weight, config)
    heads, kv_heads = head_counts(config)
    if family in PERMUTED and name.endswith(("q_proj.weight", "q_proj.bias")):
        return permuted(weight, heads)
    if family in PERMUTED and name.endswith(("k_proj.weight", "k_proj.bias")):
        return permuted(weight, kv_heads)
    if "query_key_value" in name:
        return np.concatenate(ungrouped(weight, config))
    if config.model_type in OFFSET_NORMS and is_offset_norm(name):
        return weight + 1
    if family == "gpt2" and weight.ndim == 2 and ".h." in name:
        return weight.T
    if name.endswith("shared_expert_gate.weight"):
        return weight[0]
    return weight


def write_vocabulary(writer):
    """Letters only: what matters is that all keys are there."""
    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("A") + i) for i in range(VOCABULARY - 3)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
    writer.add_token_types([2, 3, 3] + [1] * (VOCABULARY - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(7)
    writer.add_add_bos_token(True)
    writer.add_chat_template([{"name": "default", "template": "{{ messages[0].content }}"},
                              {"name": "tool_use", "template": "tools"}])


def llama3_divisors(model):
    """What llama.cpp's converter stores: the plain frequencies by those of the model."""
    frequencies = model.model.rotary_emb.inv_freq.double()
    size = 2 * len(frequencies)
    plain = model.config.rope_parameters["rope_theta"] ** -(torch.arange(0, size, 2).double() / size)
    return (plain / frequencies).float().numpy()


def write_gguf(model, path, family, packed={}):
    config = model.config
    writer = gguf.GGUFWriter(path, family)
    write_metadata(writer, config, family)
    write_vocabulary(writer)
    rope_parameters = getattr(config, "rope_parameters", {})
    parameters = {} if family == "gpt2" else rope_parameters.get("full_attention", rope_parameters)
    if parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(model))
    if parameters.get("rope_type") == "longrope":
        for length in ("long", "short"):
            writer.add_tensor(f"rope_factors_{length}.weight", np.array(parameters[f"{length}_factor"],
                                                                        dtype=np.float32))
    blocks = dict(packed_parts(packed))
    state = with_streams(state_of(model), config) if family == "gemma3n" else state_of(model)
    state = with_delta(state, config) if family == "qwen3next" else state
    for name, weight in state:
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name in blocks:
            writer.add_tensor(gguf_name(name, family, config), gguf_blocks(*blocks[name]),
                              raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            continue
        if name.endswith("kv_b_proj.weight") and config.model_type == "deepseek_v3":  # as newer files have it
            for part, rows in latent_parts("kv_b_proj", weight, config).items():
                rows = rows.unflatten(0, (config.num_attention_heads, -1)).contiguous().numpy()
                writer.add_tensor(gguf_name(name.replace("kv_b_proj", part), family, config), rows)
            continue
        values = np.ascontiguousarray(gguf_weight(name, weight.numpy(), config, family))
        writer.add_tensor(gguf_name(name, family, config), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hub_weights(model):
    """All weights under the names of the llama layout, cut and turned as Oort has them."""
    config = model.config
    weights = {}
    for name, weight in state_of(model):
        weight = weight.flatten(0, -2) if weight.dim() == 3 else weight
        layer, stem, ending = name_parts(name)
        if ".experts." in name and ending == "bias":
            weight = weight.flatten()
        if stem == "lm_head" and config.tie_word_embeddings:
            continue
        if stem.startswith("mixer"):
            parts_of = delta_parts if ".linear_attn." in name else mixer_parts
            for part, rows in parts_of(f"{stem}.{ending}", weight, config).items():
                weights[f"model.layers.{layer}.{part}"] = rows.contiguous()
            continue
        if config.model_type in OFFSET_NORMS and is_offset_norm(name):
            weight = weight + 1
        if config.model_type == "gpt2" and layer and weight.dim() == 2:
            weight = weight.T
        if stem == "self_attn.q_proj" and hasattr(config, "linear_num_key_heads"):
            for part, rows in gated_query(weight, config).items():
                weights[f"model.layers.{layer}.{part}"] = rows
            continue
        is_latent = hasattr(config, "kv_lora_rank")
        latent = latent_parts(stem.removeprefix("self_attn."), weight, config) if is_latent else {}
        for part, rows in latent.items():
            weights[f"model.layers.{layer}.self_attn.{part}.{ending}"] = rows.contiguous()
        if latent:
            continue
        prefix = f"model.layers.{layer}." if layer else "" if stem == "lm_head" else "model."
        if stem == "self_attn.qkv_proj":
            heads, kv_heads = head_counts(config)
            size = config.hidden_size // heads
            grouped = "query_key_value" in name
            rows = ungrouped(weight, config) if grouped else weight.split([heads * size] + 2 * [kv_heads * size])
            for part, values in zip("qkv", rows):
                weights[f"{prefix}self_attn.{part}_proj.{ending}"] = values
        elif stem == "mlp.gate_up_proj":
            for part, rows in zip(("gate", "up"), weight.chunk(2)):
                weights[f"{prefix}mlp.{part}_proj.{ending}"] = rows
        else:
            weights[f"{prefix}{stem}.{ending}"] = weight
    return {name: weight.numpy() for name, weight in weights.items()}


def sample(weight):
    """The shape, and elements from the beginning, from the middle of the second row, and from the end."""
    flat = weight.ravel()
    middle = weight.shape[-1] + weight.shape[-1] // 2 if weight.ndim == 2 and len(weight) > 1 else weight.shape[-1] // 2
    at = [0, 1, middle, flat.size - 1]
    return dict(shape=list(weight.shape), at=at, values=[float(flat[i]) for i in at])


def make_llama2c(versions=None):
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % i for i in range(256)] + [b"a", b"b", b"ab"]
    config = transformers.LlamaConfig(**(COMMON | dict(vocab_size=len(pieces), rms_norm_eps=1e-5) | rope(10000.0)))
    for version in (0, 1, 2, 3) if versions is None else versions:
        model = make_model(config, "float32")
        with torch.no_grad():
            write_llama2c(HERE / f"llama2c_v{version}.bin", model, version)
        write_answer(model, f"llama2c_v{version}", "llama", TOKENS[:6])
    with open(HERE / "tokenizer.bin", "wb") as file:
        file.write(struct.pack("<I", max(map(len, pieces))))
        for i, piece in enumerate(pieces):
            file.write(struct.pack("<fi", -float(i), len(piece)) + piece)


def rounded(numbers):
    if isinstance(numbers, list):
        return [rounded(number) for number in numbers]
    return float(f"{numbers:.9g}")


def write_answer(model, name, family, tokens=TOKENS):
    config = model.config
    weights = hub_weights(model)
    interleaved = {}
    if family in PERMUTED:
        heads = dict(q_proj=config.num_attention_heads, k_proj=config.num_key_value_heads)
        for key, weight in weights.items():
            for part, count in heads.items():
                if part in key:
                    interleaved[key] = sample(permuted(weight, count))
    answer = dict(
        rotary={key: rounded(value) for key, value in rotary_of(model).items()},
        weights={key: sample(weight) for key, weight in weights.items()},
        interleaved=interleaved,
        tokens=tokens,
        logits=rounded(logits_of(model, tokens)),
        answers=[dict(prompt=prompt, tokens=greedy(model, prompt)) for prompt in PROMPTS],
    )
    if name == "phi3":  # short enough for the other frequencies
        with torch.no_grad():
            fresh = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
            fresh.load_state_dict(model.state_dict())
        answer |= dict(short_tokens=TOKENS[:6], short_logits=rounded(logits_of(fresh, TOKENS[:6])))
    (HERE / f"{name}.json").write_text(json.dumps(answer) + "\n")


def main():
    for name in sys.argv[1:] or MODELS:
        if name.startswith("llama2c_v"):
            make_llama2c([int(name.removeprefix("llama2c_v"))])
            continue
        family, make_config, arguments, dtype, shard = MODELS[name]
        model = make_model(make_config(**arguments), dtype)
        packed = round_experts(model) if name.endswith("_mxfp4") else {}
        save_folder(model, HERE / name, dtype, shard)
        if packed:
            pack_folder(HERE / name, packed)
        if family is not None:
            write_gguf(model, HERE / f"{name}.gguf", family, packed)
        write_answer(model, name, family)
        if name == "llama4_text":
            save_whole_llama4(model, HERE / "llama4")
        if name == "gemma3n_text":
            save_whole_gemma3n(HERE / "gemma3n", HERE / name)
        if name == "qwen3_5_moe_text":
            save_whole_qwen3_5(HERE / "qwen3_5_moe", HERE / name)
    if not sys.argv[1:]:
        make_llama2c()


if __name__ == "__main__":
    main()
