# SPDX-License-Identifier: MIT
"""What the families of transformers and what GGUF call tensors, for make_checkpoints.py."""

# What llama's layout calls the tensors that other families name otherwise.
LLAMA_NAMES = {
    "wte": "embed_tokens", "wpe": "embed_positions", "ln_f": "norm", "ln_1": "input_layernorm",
    "ln_2": "post_attention_layernorm",
    "attn.c_attn": "self_attn.qkv_proj", "attn.c_proj": "self_attn.o_proj", "mlp.c_fc": "mlp.up_proj",
    "mlp.c_proj": "mlp.down_proj",
    "word_embeddings": "embed_tokens", "ln_attn": "input_layernorm", "ln_mlp": "post_attention_layernorm",
    "self_attention.query_key_value": "self_attn.qkv_proj", "self_attention.dense": "self_attn.o_proj",
    "mlp.dense_h_to_4h": "mlp.up_proj",
    "mlp.dense_4h_to_h": "mlp.down_proj", "embed_in": "embed_tokens", "embed_out": "lm_head",
    "final_layer_norm": "norm",
    "attention.query_key_value": "self_attn.qkv_proj", "attention.dense": "self_attn.o_proj", "final_layernorm": "norm",
    "self_attn.dense": "self_attn.o_proj", "mlp.fc1": "mlp.up_proj", "mlp.fc2": "mlp.down_proj",
    "mlp.router": "mlp.gate", "self_attn.q_a_layernorm": "self_attn.q_a_norm",
    "self_attn.kv_a_layernorm": "self_attn.kv_a_norm",
    "mlp.shared_experts.gate_proj": "mlp.shared_expert.gate_proj",
    "mlp.shared_experts.up_proj": "mlp.shared_expert.up_proj",
    "mlp.shared_experts.down_proj": "mlp.shared_expert.down_proj",
    "embeddings": "embed_tokens", "norm_f": "norm",
    "feed_forward.router": "mlp.gate", "feed_forward.gate_proj": "mlp.gate_proj", "feed_forward.up_proj": "mlp.up_proj",
    "feed_forward.down_proj": "mlp.down_proj", "feed_forward.shared_expert.gate_proj": "mlp.shared_expert.gate_proj",
    "feed_forward.shared_expert.up_proj": "mlp.shared_expert.up_proj",
    "feed_forward.shared_expert.down_proj": "mlp.shared_expert.down_proj",
    "feed_forward.experts.gate_proj": "mlp.experts.gate_proj", "feed_forward.experts.up_proj": "mlp.experts.up_proj",
    "feed_forward.experts.down_proj": "mlp.experts.down_proj",
    "mamba": "mixer", "mamba.in_proj": "mixer.in_proj", "mamba.conv1d": "mixer.conv1d", "mamba.norm": "mixer.norm",
    "mamba.out_proj": "mixer.out_proj", "pre_ff_layernorm": "post_attention_layernorm",
    "linear_attn": "mixer", "linear_attn.in_proj_qkvz": "mixer.in_proj",
    "linear_attn.in_proj_ba": "mixer.beta_step_proj",
    "linear_attn.in_proj_qkv": "mixer.conv_proj", "linear_attn.in_proj_z": "mixer.gate_proj",
    "linear_attn.in_proj_b": "mixer.beta_proj", "linear_attn.in_proj_a": "mixer.step_proj",
    "linear_attn.conv1d": "mixer.conv1d", "linear_attn.norm": "mixer.norm", "linear_attn.out_proj": "mixer.out_proj",
    "block_sparse_moe.router": "mlp.gate",
    "block_sparse_moe.experts.gate_proj": "mlp.experts.gate_proj",
    "block_sparse_moe.experts.up_proj": "mlp.experts.up_proj",
    "block_sparse_moe.experts.down_proj": "mlp.experts.down_proj",
}  # fmt: skip
# What GGUF calls them.
TOP = {
    "embed_tokens": "token_embd", "embed_positions": "position_embd", "norm": "output_norm", "lm_head": "output",
    "embed_tokens_per_layer": "per_layer_token_embd", "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm", "altup_projections": "altup_proj",
    "altup_unembed_projections": "altup_unembd_proj",
}  # fmt: skip
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "self_attn.sinks": "attn_sinks",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_norm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_norm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "self_attn.k_b_proj": "attn_k_b", "self_attn.v_b_proj": "attn_v_b", "mlp.gate_correction": "exp_probs_b",
    "mixer.in_proj": "ssm_in", "mixer.conv1d": "ssm_conv1d", "mixer.norm": "ssm_norm", "mixer.out_proj": "ssm_out",
    "mixer.conv_proj": "attn_qkv", "mixer.gate_proj": "attn_gate", "mixer.beta_step_proj": "ssm_ba",
    "altup.correct_output_scale": "altup_correct_scale", "altup.correction_coefs": "altup_correct_coef",
    "altup.prediction_coefs": "altup_predict_coef", "altup.modality_router": "altup_router",
    "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r",
    "laurel.post_laurel_norm": "laurel_post_norm", "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
    "mlp.gate_up_proj": "ffn_up", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
# Without an ending of their own.
MIXER = {"A_log": "ssm_a", "D": "ssm_d", "dt_bias": "ssm_dt.bias"}


def name_parts(name):
    """The number of a layer or None, the name in the layout of llama, and the ending."""
    *parts, ending = name.split(".")
    if parts[0] in ("model", "transformer", "gpt_neox", "backbone"):
        parts = parts[1:]
    layer = parts[1] if parts[0] in ("layers", "h") else None
    stem = ".".join(parts[2:] if layer else parts)
    if layer and stem == "norm":
        stem = "input_layernorm"
    return layer, LLAMA_NAMES.get(stem, stem), ending
