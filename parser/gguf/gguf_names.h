// SPDX-License-Identifier: MIT
// What llama.cpp calls the tensors of a language model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parser/checkpoint/decoder_config.h"

namespace oort::gguf {

struct RenamedPart {
  std::string_view file, ours;
};

inline constexpr RenamedPart kTopNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"position_embd", "model.embed_positions"},
    {"output_norm", "model.norm"},
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"output", "lm_head"}};
inline constexpr RenamedPart kLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_sinks", "self_attn.sinks"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_norm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_norm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_k_b", "self_attn.k_b_proj"},
    {"attn_v_b", "self_attn.v_b_proj"},
    {"exp_probs_b", "mlp.gate_correction"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"altup_correct_scale", "altup.correct_output_scale"},
    {"altup_correct_coef", "altup.correction_coefs"},
    {"altup_predict_coef", "altup.prediction_coefs"},
    {"altup_router", "altup.modality_router"},
    {"altup_router_norm", "altup.router_norm"},
    {"laurel_l", "laurel.linear_left"},
    {"laurel_r", "laurel.linear_right"},
    {"laurel_post_norm", "laurel.post_laurel_norm"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"attn_gate", "mixer.gate_proj"},
    {"ssm_ba", "mixer.beta_step_proj"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv"},
    {"ssm_a", "mixer.rate"},
    {"ssm_d", "mixer.skip"},
    {"ssm_dt", "mixer.step"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
};

/// A family whose members are written as GGUFs: those of which llama.cpp was seen to compute the
/// same from such a file.
struct WrittenFamily {
  std::string_view name;
  std::string_view architecture;  ///< general.architecture
  bool is_interleaved = false;    ///< rows of q and k go in the order of interleaved rotation
  bool has_fused_qkv = false;     ///< q, k and v are one tensor
};

/// Null where the family is none of them.
const WrittenFamily* FindWrittenFamily(std::string_view name);
/// Throws kUnsupported, with what to do instead.
const WrittenFamily& RequireWrittenFamily(const DecoderConfig& config);

/// One tensor of a GGUF that is to be written.
struct NewTensor {
  std::string name;
  std::vector<std::string> ours;  ///< its parts under the names of the llama layout, in order
  int64_t layer = -1;             ///< -1: of none
  int64_t heads = 0;  ///< not 0: rows of so many heads go in the order of interleaved rotation
};

/// All tensors of a model whose GGUF is to be written, those of no layer last; `has` tells which
/// names of the llama layout there are.
std::vector<NewTensor> NewTensorsOf(const DecoderConfig& config,
                                    const std::function<bool(const std::string&)>& has);

}  // namespace oort::gguf
