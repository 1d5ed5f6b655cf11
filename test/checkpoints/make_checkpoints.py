#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny language models of every family that Oort reads, with random weights, and what transformers says of them.

    test/checkpoints/make_checkpoints.py [FAMILY...]

FAMILY/config.json, *.safetensors   as transformers saves them
FAMILY.gguf                         the same weights, laid out as llama.cpp's converter does
FAMILY.json                         frequencies of the rotary embedding, some elements of all weights under the names
                                    of the llama layout, and for some tokens the logits in f32
llama2c_v{0,1,2}.bin, tokenizer.bin a llama in the three formats of llama2.c

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

HERE = pathlib.Path(__file__).parent
VOCABULARY = 40
TOKENS = [3, 17, 29, 5, 5, 38, 11, 0, 22, 31, 8, 14]
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
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=32)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.1], long_factor=[1.5, 3.0])


def rope(theta, scaling=None, **more):
    return dict(rope_parameters={"rope_type": "default"} | (scaling or {}) | {"rope_theta": theta} | more)


# family of the GGUF, class of the config, what differs, dtype, bytes of a shard
MODELS = {
    "llama": ("llama", transformers.LlamaConfig, COMMON | dict(rms_norm_eps=1e-5) | rope(500000.0, LLAMA3), "float32", None),
    "mistral": ("llama", transformers.MistralConfig, COMMON | dict(sliding_window=5) | rope(10000.0), "float32", "12KB"),
    "qwen2": ("qwen2", transformers.Qwen2Config, COMMON | dict(tie_word_embeddings=True, eos_token_id=[2, 7]) | rope(1e6, YARN), "bfloat16", None),
    "qwen3": ("qwen3", transformers.Qwen3Config, COMMON | dict(head_dim=12) | rope(1e6), "float32", None),
    "gemma": ("gemma", transformers.GemmaConfig, COMMON | dict(head_dim=10) | rope(10000.0), "float32", None),
    "gemma2": (
        "gemma2",
        transformers.Gemma2Config,
        COMMON | dict(head_dim=12, query_pre_attn_scalar=12, sliding_window=4, attn_logit_softcapping=5.0, final_logit_softcapping=3.0) | rope(10000.0),
        "float16",
        None,
    ),
    "phi3": (
        "phi3",
        transformers.Phi3Config,
        COMMON | dict(original_max_position_embeddings=8, sliding_window=9) | rope(10000.0, LONG, partial_rotary_factor=0.5),
        "float32",
        None,
    ),
    "gpt2": (
        "gpt2",
        transformers.GPT2Config,
        dict(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=24, initializer_range=0.3, bos_token_id=1, eos_token_id=2),
        "float32",
        None,
    ),
}


def make_model(config, dtype):
    """Random weights that are numbers of `dtype`, in f32; biases and norms are random too."""
    torch.manual_seed(6)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.2 + (0 if name.endswith("bias") or config.model_type.startswith("gemma") else 1))
            weight.copy_(weight.to(getattr(torch, dtype)))
    return model


def save_folder(model, folder, dtype, shard):
    shutil.rmtree(folder, ignore_errors=True)
    saved = transformers.AutoModelForCausalLM.from_config(model.config).to(getattr(torch, dtype))
    saved.load_state_dict(model.state_dict())
    saved.save_pretrained(folder, **(dict(max_shard_size=shard) if shard else {}))


def rotary_of(model):
    """The frequencies, those for long sequences where there are such, and the magnitude."""
    rotary = getattr(model.model, "rotary_emb", None) if hasattr(model, "model") else None
    if rotary is None:
        return {}
    numbers = dict(frequencies=rotary.inv_freq.tolist(), magnitude=float(rotary.attention_scaling))
    if rotary.config.rope_parameters["rope_type"] == "longrope":
        long, magnitude = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["longrope"](rotary.config, "cpu", seq_len=1000)
        numbers |= dict(long_frequencies=long.tolist(), long_magnitude=magnitude)
    return numbers


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].tolist()


def permuted(weight, heads):
    """Rows of each head so that pairs of the rotary embedding stand side by side."""
    size = weight.shape[0] // heads
    return weight.reshape(heads, 2, size // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


TOP = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name, family):
    parts = name.removeprefix("model.").removeprefix("transformer.").split(".")
    ending = parts.pop()
    if parts[0] not in ("layers", "h"):
        return f"{TOP['.'.join(parts)]}.{ending}"
    stem = ".".join(parts[2:])
    if family == "gemma2" and stem == "post_attention_layernorm":
        return f"blk.{parts[1]}.post_attention_norm.{ending}"
    return f"blk.{parts[1]}.{LAYER[stem]}.{ending}"


def gguf_weight(name, weight, config, family):
    if family == "llama" and name.endswith(("q_proj.weight", "q_proj.bias")):
        return permuted(weight, config.num_attention_heads)
    if family == "llama" and name.endswith(("k_proj.weight", "k_proj.bias")):
        return permuted(weight, config.num_key_value_heads)
    if family.startswith("gemma") and "norm" in name:
        return weight + 1
    if family == "gpt2" and weight.ndim == 2 and ".h." in name:
        return weight.T
    return weight


def write_metadata(writer, config, family):
    is_gpt2 = family == "gpt2"
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.n_inner if is_gpt2 else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if is_gpt2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if head_dim * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope_parameters = config.rope_parameters
    writer.add_rope_freq_base(rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope_parameters.get("partial_rotary_factor", 1.0)))
    if rope_parameters["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope_parameters["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope_parameters["original_max_position_embeddings"])
    if rope_parameters["rope_type"] == "longrope":
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(64 / 8) / np.log(8))))
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if family == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


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
    writer.add_chat_template([{"name": "default", "template": "{{ messages[0].content }}"}, {"name": "tool_use", "template": "tools"}])


def llama3_divisors(model):
    """What llama.cpp's converter stores: the plain frequencies by those of the model."""
    frequencies = model.model.rotary_emb.inv_freq.double()
    size = 2 * len(frequencies)
    plain = model.config.rope_parameters["rope_theta"] ** -(torch.arange(0, size, 2).double() / size)
    return (plain / frequencies).float().numpy()


def write_gguf(model, path, family):
    config = model.config
    writer = gguf.GGUFWriter(path, family)
    write_metadata(writer, config, family)
    write_vocabulary(writer)
    parameters = {} if family == "gpt2" else config.rope_parameters
    if parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(model))
    if parameters.get("rope_type") == "longrope":
        for length in ("long", "short"):
            writer.add_tensor(f"rope_factors_{length}.weight", np.array(parameters[f"{length}_factor"], dtype=np.float32))
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = np.ascontiguousarray(gguf_weight(name, weight.numpy(), config, family))
        writer.add_tensor(gguf_name(name, family), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hub_weights(model):
    """All weights under the names of the llama layout, cut and turned as Oort has them."""
    config = model.config
    layer_names = {"ln_1": "input_layernorm", "ln_2": "post_attention_layernorm", "attn.c_proj": "self_attn.o_proj", "mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj"}
    top_names = {"wte": "model.embed_tokens", "wpe": "model.embed_positions", "ln_f": "model.norm"}
    weights = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            if not config.tie_word_embeddings:
                weights[name] = weight
            continue
        if config.model_type.startswith("gemma") and "norm" in name:
            weight = weight + 1
        if config.model_type == "gpt2":
            *stem, ending = name.removeprefix("transformer.").split(".")
            if stem[0] != "h":
                weights[f"{top_names[stem[0]]}.{ending}"] = weight
                continue
            weight = weight.T if weight.dim() == 2 else weight
            prefix, stem = f"model.layers.{stem[1]}.", ".".join(stem[2:])
            if stem == "attn.c_attn":
                for part, rows in zip("qkv", weight.chunk(3)):
                    weights[f"{prefix}self_attn.{part}_proj.{ending}"] = rows
            else:
                weights[f"{prefix}{layer_names[stem]}.{ending}"] = weight
        elif "qkv_proj" in name:
            size = config.hidden_size // config.num_attention_heads
            counts = [config.num_attention_heads * size] + 2 * [config.num_key_value_heads * size]
            for part, rows in zip("qkv", weight.split(counts)):
                weights[name.replace("qkv_proj", f"{part}_proj")] = rows
        elif "gate_up_proj" in name:
            for part, rows in zip(("gate", "up"), weight.chunk(2)):
                weights[name.replace("gate_up_proj", f"{part}_proj")] = rows
        else:
            weights[name] = weight
    return {name: weight.numpy() for name, weight in weights.items()}


def sample(weight):
    """The shape, and elements from the beginning, from the middle of the second row, and from the end."""
    flat = weight.ravel()
    at = [0, 1, weight.shape[-1] + weight.shape[-1] // 2 if weight.ndim == 2 else weight.shape[0] // 2, flat.size - 1]
    return dict(shape=list(weight.shape), at=at, values=[float(flat[i]) for i in at])


def write_llama2c(path, model, version, group=8):
    """As llama2.c's export.py lays it out; what the file holds is put into the model."""
    config, weights = model.config, model.state_dict()
    layers, heads, kv_heads = config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads
    sizes = [config.hidden_size, config.intermediate_size, layers, heads, kv_heads, config.vocab_size, config.max_position_embeddings]
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


def make_llama2c():
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % i for i in range(256)] + [b"a", b"b", b"ab"]
    config = transformers.LlamaConfig(**(COMMON | dict(vocab_size=len(pieces), rms_norm_eps=1e-5) | rope(10000.0)))
    for version in (0, 1, 2):
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
    if family == "llama":
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
    )
    if name == "phi3":  # short enough for the other frequencies
        with torch.no_grad():
            fresh = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
            fresh.load_state_dict(model.state_dict())
        answer |= dict(short_tokens=TOKENS[:6], short_logits=rounded(logits_of(fresh, TOKENS[:6])))
    (HERE / f"{name}.json").write_text(json.dumps(answer) + "\n")


def main():
    for name in sys.argv[1:] or MODELS:
        family, make_config, arguments, dtype, shard = MODELS[name]
        model = make_model(make_config(**arguments), dtype)
        save_folder(model, HERE / name, dtype, shard)
        write_gguf(model, HERE / f"{name}.gguf", family)
        write_answer(model, name, family)
    if not sys.argv[1:]:
        make_llama2c()


if __name__ == "__main__":
    main()
