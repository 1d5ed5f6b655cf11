#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/checkpoints/configs.json: texts of config.json as models of the Hub have them, old and new, and what
transformers makes of each.

    test/checkpoints/make_configs.py
"""
import importlib
import json
import math
import pathlib

import transformers

HERE = pathlib.Path(__file__).parent
SMALL = dict(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8)
LONG = [round(1 + 0.2 * i, 3) for i in range(48)]
SHORT = [round(1 + 0.01 * i, 3) for i in range(48)]

CONFIGS = {
    "llama, as small as it can be": dict(model_type="llama", **SMALL),
    "llama 2": dict(model_type="llama", vocab_size=32000, hidden_size=4096, intermediate_size=11008,
                    num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=4096,
                    rms_norm_eps=1e-5, rope_scaling=None, hidden_act="silu", tie_word_embeddings=False),
    "llama 3.1": dict(model_type="llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336,
                      num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                      max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0,
                      rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=8192, rope_type="llama3"), head_dim=128),
    "llama, linear": dict(model_type="llama", **SMALL, rope_scaling=dict(type="linear", factor=4.0)),
    "llama, dynamic": dict(model_type="llama", **SMALL, rope_scaling=dict(type="dynamic", factor=2.0)),
    "llama, yarn with all": dict(model_type="llama", **SMALL, max_position_embeddings=65536,
                                 rope_parameters=dict(rope_type="yarn", rope_theta=20000.0, factor=16.0,
                                                      original_max_position_embeddings=4096, beta_fast=16, beta_slow=2,
                                                      mscale=0.8, mscale_all_dim=0.5, truncate=False)),
    "llama, yarn with an attention factor": dict(model_type="llama", **SMALL,
                                                 rope_scaling=dict(rope_type="yarn", factor=8.0,
                                                                   original_max_position_embeddings=256,
                                                                   attention_factor=1.25)),
    "llama, new keys": dict(model_type="llama", **SMALL, rope_parameters=dict(rope_type="default", rope_theta=123456.0),
                            num_key_value_heads=2, head_dim=48),
    "smollm2": dict(model_type="llama", vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                    num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=1e-5,
                    rope_theta=100000, rope_scaling=None, tie_word_embeddings=True),
    "mistral 0.1": dict(model_type="mistral", vocab_size=32000, hidden_size=4096, intermediate_size=14336,
                        num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=8,
                        max_position_embeddings=32768, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=4096),
    "mistral 0.2": dict(model_type="mistral", **SMALL, num_key_value_heads=8, rope_theta=1000000.0,
                        sliding_window=None),
    "mistral without a word of windows": dict(model_type="mistral", **SMALL, num_key_value_heads=2),
    "qwen2": dict(model_type="qwen2", **SMALL, num_key_value_heads=2, rope_theta=1000000.0, sliding_window=131072,
                  use_sliding_window=False, max_window_layers=2, rms_norm_eps=1e-6),
    "qwen2 with windows": dict(model_type="qwen2", **SMALL, num_key_value_heads=2, sliding_window=64,
                               use_sliding_window=True, max_window_layers=2),
    "qwen2.5, yarn": dict(model_type="qwen2", **SMALL, num_key_value_heads=2, max_position_embeddings=131072,
                          rope_theta=1000000.0, rope_scaling=dict(factor=4.0, original_max_position_embeddings=32768,
                                                                  type="yarn")),
    "qwen3": dict(model_type="qwen3", **SMALL, num_key_value_heads=2, rope_theta=1000000, max_position_embeddings=40960,
                  tie_word_embeddings=True, rope_scaling=None),
    "qwen3 with types of layers": dict(model_type="qwen3", **SMALL, head_dim=64, num_key_value_heads=2,
                                       use_sliding_window=True, sliding_window=32,
                                       layer_types=["full_attention", "sliding_attention", "full_attention",
                                                    "sliding_attention"]),
    "gemma": dict(model_type="gemma", **SMALL, num_key_value_heads=1, head_dim=256, hidden_act="gelu",
                  max_position_embeddings=8192),
    "gemma2 9b": dict(model_type="gemma2", **SMALL, num_key_value_heads=4, head_dim=256, hidden_act="gelu_pytorch_tanh",
                      hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=256, sliding_window=4096,
                      attn_logit_softcapping=50.0, final_logit_softcapping=30.0, sliding_window_size=4096),
    "gemma2 27b": dict(model_type="gemma2", **SMALL, num_key_value_heads=4, head_dim=128, query_pre_attn_scalar=144,
                       sliding_window=16, attn_logit_softcapping=None),
    "phi3 4k": dict(model_type="phi3", vocab_size=32064, hidden_size=3072, intermediate_size=8192, num_hidden_layers=4,
                    num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=4096,
                    original_max_position_embeddings=4096, rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None,
                    sliding_window=2047),
    "phi3 128k": dict(model_type="phi3", vocab_size=32064, hidden_size=3072, intermediate_size=8192,
                      num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=32,
                      max_position_embeddings=131072, original_max_position_embeddings=4096, rms_norm_eps=1e-5,
                      rope_theta=10000.0, rope_scaling=dict(type="longrope", long_factor=LONG, short_factor=SHORT),
                      sliding_window=262144),
    "phi4 mini": dict(model_type="phi3", vocab_size=200064, hidden_size=3072, intermediate_size=8192,
                      num_hidden_layers=4, num_attention_heads=24, num_key_value_heads=8,
                      max_position_embeddings=131072, original_max_position_embeddings=4096, partial_rotary_factor=0.75,
                      rope_scaling=dict(type="longrope", long_factor=LONG, short_factor=SHORT),
                      tie_word_embeddings=True),
    "gpt2": dict(model_type="gpt2", vocab_size=50257, n_embd=768, n_layer=12, n_head=12, n_positions=1024, n_ctx=1024,
                 activation_function="gelu_new", layer_norm_epsilon=1e-5),
}  # fmt: skip


def rotary_of(config):
    """Frequencies and magnitude, then those of long sequences."""
    name = config.model_type
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    rotary = next(value for key, value in vars(module).items() if key.endswith("RotaryEmbedding"))(config)
    numbers = dict(frequencies=rotary.inv_freq.tolist(), magnitude=float(rotary.attention_scaling))
    if config.rope_parameters["rope_type"] == "longrope":
        rule = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["longrope"]
        long, magnitude = rule(config, "cpu", seq_len=10**6)
        numbers |= dict(long_frequencies=long.tolist(), long_magnitude=magnitude)
        numbers |= dict(original_context=config.original_max_position_embeddings)
    return numbers


def windows_of(config):
    window = getattr(config, "sliding_window", None) or 0
    types = getattr(config, "layer_types", None)
    if types is None:
        return [window] * config.num_hidden_layers
    return [window if kind == "sliding_attention" else 0 for kind in types]


def answer_of(config):
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    gpt2 = config.model_type == "gpt2"
    return dict(
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_attention_heads if gpt2 else config.num_key_value_heads,
        head_dim=head_dim,
        intermediate=(config.n_inner or 4 * config.n_embd) if gpt2 else config.intermediate_size,
        context=config.max_position_embeddings,
        epsilon=config.layer_norm_epsilon if gpt2 else config.rms_norm_eps,
        tied=config.tie_word_embeddings,
        windows=windows_of(config),
        attention_scale=1 / math.sqrt(getattr(config, "query_pre_attn_scalar", head_dim)),
        attention_softcap=getattr(config, "attn_logit_softcapping", None) or 0,
        final_softcap=getattr(config, "final_logit_softcapping", None) or 0,
        rotary={} if gpt2 else rotary_of(config),
    )


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main():
    cases = []
    for name, config in CONFIGS.items():
        text = json.dumps(config)  # what transformers gets, it changes
        made = transformers.AutoConfig.for_model(**json.loads(text))
        cases.append(dict(name=name, config=json.loads(text), answer=rounded(answer_of(made))))
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "configs.json").write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
