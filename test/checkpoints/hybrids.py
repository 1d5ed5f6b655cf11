# SPDX-License-Identifier: MIT
"""Models of layers with attention and layers with a state, for make_checkpoints.py."""
import gguf
import numpy as np
import transformers


def hybrid_models(common, rope):
    """As MODELS has them. llama.cpp's converter takes bamba for the same as Granite, and turns its rows wrongly."""
    state = dict(mamba_n_heads=8, mamba_d_head=8, mamba_expand=2, mamba_d_state=12)
    scales = dict(embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2, logits_scaling=4.0)
    granite = common | state | scales | rope(10000.0)
    layers = ["linear_attention", "linear_attention", "full_attention", "linear_attention", "full_attention"]
    return {
        "granitemoehybrid": (
            "granitehybrid",
            transformers.GraniteMoeHybridConfig,
            granite
            | dict(num_hidden_layers=5, layer_types=layers, mamba_n_groups=2, num_local_experts=6,
                   num_experts_per_tok=2, intermediate_size=16, shared_intermediate_size=24),
            "float32",
            None,
        ),
        "granitemoehybrid_dense": (
            "granitehybrid",
            transformers.GraniteMoeHybridConfig,
            granite
            | dict(num_hidden_layers=3, layer_types=layers[1:4], num_local_experts=0, shared_intermediate_size=24)
            | dict(position_embedding_type="rope", mamba_d_conv=2, mamba_conv_bias=False, mamba_proj_bias=True)
            | dict(tie_word_embeddings=True, attention_bias=True),
            "bfloat16",
            None,
        ),
        "bamba": (
            None,
            transformers.BambaConfig,
            common | state | rope(10000.0) | dict(num_hidden_layers=3, attn_layer_indices=[1]),
            "float32",
            None,
        ),
        "falcon_h1": (
            "falcon-h1",
            transformers.FalconH1Config,
            common | state | FALCON_SCALES | rope(10000.0)
            | dict(mamba_d_head="auto", mamba_d_ssm=48, mamba_n_heads=6, mamba_n_groups=2, projectors_bias=True),
            "float32",
            None,
        ),
        "falcon_h1_norm": (  # in GGUF norms would be behind the gate
            None,
            transformers.FalconH1Config,
            common | state | FALCON_SCALES | rope(10000.0)
            | dict(mamba_d_ssm=64, mamba_n_groups=2, mamba_rms_norm=True, mamba_norm_before_gate=True),
            "bfloat16",
            None,
        ),
    }


FALCON_SCALES = dict(
    embedding_multiplier=2.5, lm_head_multiplier=0.5, key_multiplier=0.7, attention_in_multiplier=1.25,
    attention_out_multiplier=0.6, ssm_in_multiplier=1.5, ssm_out_multiplier=0.4, mlp_multipliers=[0.8, 0.3],
    ssm_multipliers=[0.7, 0.5, 0.8, 0.9, 0.6]
)


def scaled(name, weight, config):
    """What llama.cpp's converter puts into the weights of Falcon-H1."""
    heads, head_dim, groups, size = state_sizes(config)
    keys = config.attention_in_multiplier
    scales = {
        "q_proj": keys, "k_proj": keys * config.key_multiplier, "v_proj": keys,
        "o_proj": config.attention_out_multiplier, "out_proj": config.ssm_out_multiplier,
        "gate_proj": config.mlp_multipliers[0], "down_proj": config.mlp_multipliers[1],
        "embed_tokens": config.embedding_multiplier, "lm_head": config.lm_head_multiplier,
    }
    module = name.split(".")[-2]
    if module == "in_proj":
        rows = [heads * head_dim, heads * head_dim, groups * size, groups * size, heads]
        return weight * np.repeat(config.ssm_multipliers, rows)[:, None].astype("f4") * config.ssm_in_multiplier
    return weight * scales.get(module, 1)


def state_sizes(config):
    """Heads with a state, numbers of a head, groups, and the size of the state."""
    if hasattr(config, "mamba_n_heads"):
        return config.mamba_n_heads, config.mamba_d_head, config.mamba_n_groups, config.mamba_d_state
    return config.num_heads, config.head_dim, config.n_groups, config.state_size


def shared_parts(name, weight, config):
    """What is one tensor in Granite, and two elsewhere."""
    shared = "mlp.shared_expert" if config.num_local_experts > 0 else "mlp"
    if name.endswith("output_linear.weight"):
        yield name.replace("shared_mlp.output_linear", f"{shared}.down_proj"), weight
        return
    for part, rows in zip(("gate_proj", "up_proj"), weight.chunk(2)):
        yield name.replace("shared_mlp.input_linear", f"{shared}.{part}"), rows.contiguous()


def write_hybrid(writer, config):
    """As llama.cpp's converter does: layers without heads of keys have a state."""
    attention = [kind == "full_attention" for kind in config.layer_types]
    writer.add_head_count_kv([config.num_key_value_heads if here else 0 for here in attention])
    writer.add_key_value("granitehybrid.rope.scaling.finetuned", config.position_embedding_type == "rope",
                         gguf.GGUFValueType.BOOL)
    write_mixers(writer, config)
    if config.num_local_experts > 0:
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def write_mixers(writer, config):
    heads, size, groups, state = state_sizes(config)
    writer.add_ssm_conv_kernel(config.mamba_d_conv)
    writer.add_ssm_inner_size(heads * size)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(groups)
