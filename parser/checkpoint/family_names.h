// SPDX-License-Identifier: MIT
// What files of each family call their tensors, for the table of families alone.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "parser/checkpoint/families.h"

namespace oort {

template <size_t kFirst, size_t kSecond>
constexpr auto Joined(const RenamedTensor (&first)[kFirst],
                      const RenamedTensor (&second)[kSecond]) {
  std::array<RenamedTensor, kFirst + kSecond> all{};
  std::copy_n(second, kSecond, std::copy_n(first, kFirst, all.begin()));
  return all;
}

/// Of layers of hybrids. Rows of in_proj are those of several matrices: see AddStateSpaceTensor.
inline constexpr RenamedTensor kMixerNames[] = {
    {"mamba.in_proj", "mixer.in_proj"},       {"mamba.conv1d", "mixer.conv"},
    {"mamba.A_log", "mixer.rate_log.weight"}, {"mamba.D", "mixer.skip.weight"},
    {"mamba.dt_bias", "mixer.step.bias"},     {"mamba.norm", "mixer.norm"},
    {"mamba.out_proj", "mixer.out_proj"},
};
inline constexpr RenamedTensor kBambaFeedForward[] = {
    {"final_layernorm", "norm"},
    {"pre_ff_layernorm", "post_attention_layernorm"},
    {"feed_forward.gate_proj", "mlp.gate_proj"},
    {"feed_forward.up_proj", "mlp.up_proj"},
    {"feed_forward.down_proj", "mlp.down_proj"},
};
inline constexpr auto kBambaNames = Joined(kMixerNames, kBambaFeedForward);
inline constexpr RenamedTensor kDeepseekNames[] = {
    {"self_attn.q_a_layernorm", "self_attn.q_a_norm"},
    {"self_attn.kv_a_layernorm", "self_attn.kv_a_norm"},
    {"mlp.gate.e_score_correction_bias", "mlp.gate_correction.bias"},
    {"mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj"},
    {"mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj"},
    {"mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj"},
};
inline constexpr RenamedTensor kFalconNames[] = {
    {"word_embeddings", "embed_tokens"},
    {"ln_f", "norm"},
    {"ln_attn", "input_layernorm"},
    {"ln_mlp", "post_attention_layernorm"},
    {"self_attention.query_key_value", "self_attn.qkv_proj"},
    {"self_attention.dense", "self_attn.o_proj"},
    {"mlp.dense_h_to_4h", "mlp.up_proj"},
    {"mlp.dense_4h_to_h", "mlp.down_proj"},
};
inline constexpr RenamedTensor kGemma3nNames[] = {
    {"altup.correct_output_scale", "altup.correct_output_scale.weight"},
};
inline constexpr std::string_view kGemma3nOthers[] = {"model.audio_tower.", "model.vision_tower.",
                                                      "model.embed_audio.", "model.embed_vision."};
inline constexpr RenamedTensor kGpt2Names[] = {
    {"wte", "embed_tokens"},
    {"wpe", "embed_positions"},
    {"ln_f", "norm"},
    {"ln_1", "input_layernorm"},
    {"ln_2", "post_attention_layernorm"},
    {"attn.c_attn", "self_attn.qkv_proj"},
    {"attn.c_proj", "self_attn.o_proj"},
    {"mlp.c_fc", "mlp.up_proj"},
    {"mlp.c_proj", "mlp.down_proj"},
};
inline constexpr RenamedTensor kGptNeoxNames[] = {
    {"embed_in", "embed_tokens"},
    {"embed_out", "lm_head"},
    {"final_layer_norm", "norm"},
    {"attention.query_key_value", "self_attn.qkv_proj"},
    {"attention.dense", "self_attn.o_proj"},
    {"mlp.dense_h_to_4h", "mlp.up_proj"},
    {"mlp.dense_4h_to_h", "mlp.down_proj"},
};
inline constexpr RenamedTensor kGptOssNames[] = {
    {"self_attn.sinks", "self_attn.sinks.weight"},
    {"mlp.router", "mlp.gate"},
    {"mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj.weight"},
    {"mlp.experts.gate_up_proj_bias", "mlp.experts.gate_up_proj.bias"},
    {"mlp.experts.down_proj", "mlp.experts.down_proj.weight"},
    {"mlp.experts.down_proj_bias", "mlp.experts.down_proj.bias"},
};
inline constexpr RenamedTensor kGraniteFeedForward[] = {
    {"shared_mlp.input_linear", "mlp.shared_expert.gate_up_proj"},
    {"shared_mlp.output_linear", "mlp.shared_expert.down_proj"},
    {"block_sparse_moe.router.layer", "mlp.gate"},
    {"block_sparse_moe.input_linear", "mlp.experts.gate_up_proj"},
    {"block_sparse_moe.output_linear", "mlp.experts.down_proj"},
};
inline constexpr auto kGraniteHybridNames = Joined(kMixerNames, kGraniteFeedForward);
inline constexpr RenamedTensor kLlama4Names[] = {
    {"language_model.lm_head", "lm_head"},
    {"feed_forward.router", "mlp.gate"},
    {"feed_forward.gate_proj", "mlp.gate_proj"},
    {"feed_forward.up_proj", "mlp.up_proj"},
    {"feed_forward.down_proj", "mlp.down_proj"},
    {"feed_forward.shared_expert.gate_proj", "mlp.shared_expert.gate_proj"},
    {"feed_forward.shared_expert.up_proj", "mlp.shared_expert.up_proj"},
    {"feed_forward.shared_expert.down_proj", "mlp.shared_expert.down_proj"},
    {"feed_forward.experts.gate_up_proj", "mlp.experts.gate_up_proj.weight"},
    {"feed_forward.experts.down_proj", "mlp.experts.down_proj.weight"},
};
inline constexpr std::string_view kLlama4Pictures[] = {"vision_model.", "multi_modal_projector."};
/// Rows of in_proj are those of several matrices: see AddStateSpaceTensor.
inline constexpr RenamedTensor kMamba2Names[] = {
    {"embeddings", "embed_tokens"},
    {"norm_f", "norm"},
    {"norm", "input_layernorm"},
    {"mixer.conv1d", "mixer.conv"},
    {"mixer.A_log", "mixer.rate_log.weight"},
    {"mixer.D", "mixer.skip.weight"},
    {"mixer.dt_bias", "mixer.step.bias"},
};
inline constexpr RenamedTensor kMixtralNames[] = {
    {"block_sparse_moe.gate", "mlp.gate"},
    {"w1", "gate_proj"},
    {"w2", "down_proj"},
    {"w3", "up_proj"},
};
inline constexpr RenamedTensor kPhiNames[] = {
    {"final_layernorm", "norm"},
    {"self_attn.dense", "self_attn.o_proj"},
    {"mlp.fc1", "mlp.up_proj"},
    {"mlp.fc2", "mlp.down_proj"},
};
/// Rows of in_proj and beta_step_proj are those of several matrices: see AddDeltaTensor.
inline constexpr RenamedTensor kDeltaNames[] = {
    {"linear_attn.in_proj_qkvz", "mixer.in_proj"},
    {"linear_attn.in_proj_ba", "mixer.beta_step_proj"},
    {"linear_attn.in_proj_qkv", "mixer.conv_proj"},
    {"linear_attn.in_proj_z", "mixer.gate_proj"},
    {"linear_attn.in_proj_b", "mixer.beta_proj"},
    {"linear_attn.in_proj_a", "mixer.step_proj"},
    {"linear_attn.conv1d", "mixer.conv"},
    {"linear_attn.A_log", "mixer.rate_log.weight"},
    {"linear_attn.dt_bias", "mixer.step.bias"},
    {"linear_attn.norm", "mixer.norm"},
    {"linear_attn.out_proj", "mixer.out_proj"},
    {"mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj.weight"},
    {"mlp.experts.down_proj", "mlp.experts.down_proj.weight"},
};
inline constexpr std::string_view kLaterTokens[] = {"mtp."};
inline constexpr std::string_view kQwenPictures[] = {"mtp.", "model.visual."};
inline constexpr RenamedTensor kStarcoder2Names[] = {
    {"mlp.c_fc", "mlp.up_proj"},
    {"mlp.c_proj", "mlp.down_proj"},
};

}  // namespace oort
