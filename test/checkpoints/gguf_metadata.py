# SPDX-License-Identifier: MIT
"""What a GGUF file says of a config of transformers, for make_checkpoints.py."""
import gguf
import numpy as np
import torch

from delta_nets import write_delta
from hybrids import write_hybrid, write_mixers


def head_counts(config):
    heads = config.num_attention_heads
    if config.model_type == "falcon" and not config.new_decoder_architecture:
        return heads, 1 if config.multi_query else heads
    return heads, getattr(config, "num_kv_heads", None) or getattr(config, "num_key_value_heads", None) or heads


def epsilon_of(config):
    names = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
    return next(getattr(config, name) for name in names if hasattr(config, name))


def write_state_space(writer, config):
    """As llama.cpp's converter does."""
    writer.add_context_length(2**20)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_ssm_conv_kernel(config.conv_kernel)
    writer.add_ssm_inner_size(config.num_heads * config.head_dim)
    writer.add_ssm_state_size(config.state_size)
    writer.add_ssm_time_step_rank(config.num_heads)
    writer.add_ssm_group_count(config.n_groups)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)


def write_metadata(writer, config, family):
    if family == "mamba2":
        write_state_space(writer, config)
        return
    is_gpt2 = family == "gpt2"
    heads, kv_heads = head_counts(config)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    names = ("n_inner", "ffn_hidden_size", "intermediate_size_mlp", "intermediate_size")
    writer.add_feed_forward_length(next(getattr(config, name) for name in names if hasattr(config, name)))
    writer.add_head_count(heads)
    (writer.add_layer_norm_rms_eps if hasattr(config, "rms_norm_eps")
     else writer.add_layer_norm_eps)(epsilon_of(config))
    if is_gpt2:
        return
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    if family == "granitehybrid":
        write_hybrid(writer, config)
    else:
        writer.add_head_count_kv(kv_heads)
    if family == "falcon-h1":
        write_mixers(writer, config)
    if family == "qwen3next":
        write_delta(writer, config)
    if family != "deepseek2" and head_dim * heads != config.hidden_size:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope_parameters = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_freq_base(rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope_parameters.get("partial_rotary_factor", 1.0)))
    if rope_parameters["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope_parameters["factor"])
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
    if family == "gemma3":  # real files have all but every sixth layer windowed, and no key
        writer.add_uint32("gemma3.attention.sliding_window_pattern", 3)
    if family == "gemma3n":
        write_streams(writer, config)
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if family == "llama4":  # real files say nothing of windows and temperature
        writer.add_sliding_window(config.attention_chunk_size)
        writer.add_attn_temperature_length(config.floor_scale)
        writer.add_attn_temperature_scale(config.attn_scale)
        writer.add_interleave_moe_layer_step(config.interleave_moe_layer_step)
    if family in ("gpt-oss", "llama4"):
        writer.add_expert_feed_forward_length(config.intermediate_size)
    if hasattr(config, "moe_intermediate_size"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if hasattr(config, "shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if family == "deepseek2":
        write_deepseek(writer, config)
    if family in ("gptneox", "stablelm"):
        writer.add_parallel_residual(config.use_parallel_residual)
    if family in ("granite", "granitehybrid"):
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if family == "command-r":
        writer.add_logit_scale(config.logit_scale)


def write_streams(writer, config):
    """Several residual streams, and what else is gemma3n's alone."""
    writer.add_altup_active_idx(config.altup_active_idx)
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    shares = torch.tensor(config.activation_sparsity_pattern)
    writer.add_activation_sparsity_scale(torch.distributions.normal.Normal(0, 1).icdf(shares).tolist())
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    writer.add_final_logit_softcapping(config.final_logit_softcapping)


def write_deepseek(writer, config):
    """Sizes of heads as older files have them for deepseek_v2, those of the cache for the others."""
    has_groups = config.model_type == "deepseek_v3" or config.topk_method != "greedy"
    writer.add_kv_lora_rank(config.kv_lora_rank)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    head = config.qk_nope_head_dim + config.qk_rope_head_dim
    if has_groups:
        writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
        writer.add_value_length(config.kv_lora_rank)
        writer.add_key_length_mla(head)
        writer.add_value_length_mla(config.v_head_dim)
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    else:
        writer.add_key_length(head)
        writer.add_value_length(config.v_head_dim)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    if config.model_type == "deepseek_v3":
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config.rope_parameters["rope_type"] == "yarn":
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])
