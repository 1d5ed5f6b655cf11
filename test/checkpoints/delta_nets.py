# SPDX-License-Identifier: MIT
"""Models whose layers have attention with gates, or a gated delta rule, for make_checkpoints.py."""
import torch
import transformers


def delta_models(common, rope, experts):
    """As MODELS has them. llama.cpp has other rows for Qwen3.5 than for Qwen3-Next."""
    heads = dict(head_dim=16, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12,
                 linear_value_head_dim=8)
    tiny = common | heads | rope(1e7, partial_rotary_factor=0.25) | dict(num_hidden_layers=4)
    return {
        "qwen3_next": (
            "qwen3next",
            transformers.Qwen3NextConfig,
            tiny | experts | dict(shared_expert_intermediate_size=20, full_attention_interval=3),
            "float32",
            None,
        ),
        "qwen3_5_text": (
            None,
            transformers.Qwen3_5TextConfig,
            tiny | dict(layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"])
            | dict(linear_num_value_heads=2, linear_conv_kernel_dim=3, tie_word_embeddings=True),
            "bfloat16",
            None,
        ),
        "qwen3_5_moe_text": (
            None,
            transformers.Qwen3_5MoeTextConfig,
            {key: value for key, value in tiny.items() if key != "intermediate_size"} | experts
            | dict(shared_expert_intermediate_size=20, num_hidden_layers=2, full_attention_interval=2),
            "float32",
            None,
        ),
    }


def is_offset_norm(name):
    """Whether it multiplies with 1 + weight: that behind a delta rule does not."""
    return "norm" in name and ".linear_attn." not in name


def of_groups(weight, config, parts):
    """Rows that each group of heads has one behind the other, as matrices of their own: so many of them for a group."""
    groups = weight.unflatten(0, (config.linear_num_key_heads, -1)).split(parts, dim=1)
    return [rows.flatten(0, 1) for rows in groups]


def delta_inputs(weight, config):
    """Queries, keys and values, and gates."""
    values = config.linear_value_head_dim * config.linear_num_value_heads // config.linear_num_key_heads
    size = config.linear_key_head_dim
    *mixed, gates = of_groups(weight, config, [size, size, values, values])
    return torch.cat(mixed), gates


def gated_query(weight, config):
    """Queries of all heads, and their gates."""
    heads = weight.unflatten(0, (config.num_attention_heads, 2, -1))
    names = ("self_attn.q_proj.weight", "self_attn.gate_proj.weight")
    return {name: heads[:, i].flatten(0, 1) for i, name in enumerate(names)}


def delta_parts(name, weight, config):
    """What Oort makes of a tensor of a delta rule, below the layer, but for rates: GGUF has other ones."""
    stem, _, ending = name.rpartition(".")
    if stem == "mixer.in_proj":
        mixed, gates = delta_inputs(weight, config)
        return {"mixer.conv_proj.weight": mixed, "mixer.gate_proj.weight": gates}
    if stem == "mixer.beta_step_proj":
        heads = config.linear_num_value_heads // config.linear_num_key_heads
        names = ("mixer.beta_proj.weight", "mixer.step_proj.weight")
        return dict(zip(names, of_groups(weight, config, [heads, heads])))
    if stem == "mixer.conv1d":
        return {"mixer.conv.weight": weight.flatten()}
    names = {"A_log": None, "dt_bias": "mixer.step.bias"}
    name = names.get(ending, name)
    return {name: weight} if name else {}


def with_delta(state, config):
    """As llama.cpp's converter has delta rules."""
    for name, weight in state:
        if name.endswith("in_proj_qkvz.weight"):
            for part, rows in zip(("qkv", "z"), delta_inputs(weight, config)):
                yield name.replace("qkvz", part), rows.contiguous()
        elif name.endswith(".A_log"):
            yield name, -weight.exp()
        elif name.endswith("conv1d.weight"):
            yield name, weight[:, 0]
        else:
            yield name, weight


def write_delta(writer, config):
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)
