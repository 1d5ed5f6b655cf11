// SPDX-License-Identifier: MIT
#include "parser/checkpoint/families.h"

#include <algorithm>
#include <array>

#include "core/problems.h"
#include "oort/error.h"
#include "parser/checkpoint/family_names.h"

namespace oort {
namespace {

constexpr auto kFamilies = [] {
  using Bias = Family::Bias;
  using Block = DecoderConfig::Block;
  using Norm = DecoderConfig::Norm;
  using QueryKeyNorm = DecoderConfig::QueryKeyNorm;
  using Windows = Family::Windows;
  constexpr Family llama4 = {.name = "llama4_text",
                             .gguf_name = "llama4",
                             .query_key_norm = QueryKeyNorm::kTurned,
                             .interleaved_rotary = true,
                             .rotary_period = 4,
                             .experts = true,
                             .scales_expert_inputs = true,
                             .shared_expert = true,
                             .shared_expert_gated = false,
                             .sigmoid_experts = true,
                             .chunked_windows = true,
                             .temperature = {.length = 8192, .scale = 0.1F},
                             .context = 131072,
                             .head_dim = 128,
                             .norm_epsilon = 1e-5,
                             .windows = Windows::kMost,
                             .window = 8192,
                             .window_period = 4,
                             .rotary_base = 500000,
                             .window_key = "attention_chunk_size",
                             .dense_key = "intermediate_size_mlp",
                             .query_key_norm_key = "use_qk_norm",
                             .hub_names = kLlama4Names,
                             .fused_experts = Family::FusedExperts::kHalves,
                             .gguf_window = true,
                             .gguf_experts = true};
  /// The whole model, of which the language model alone is read.
  constexpr Family llama4_whole = [](Family family) {
    family.name = "llama4";
    family.hub_prefix = "language_model.model.";
    family.hub_skipped = kLlama4Pictures;
    family.text_family = "llama4_text";
    return family;
  }(llama4);
  constexpr Family gemma3n = {.name = "gemma3n_text",
                              .gguf_name = "gemma3n",
                              .activation = Activation::kGeluTanh,
                              .tied_head = true,
                              .query_key_norm = QueryKeyNorm::kHead,
                              .post_norms = true,
                              .scaled_embeddings = true,
                              .local_rotary_base = 10000,
                              .altup = true,
                              .context = 32768,
                              .head_dim = 256,
                              .windows = Windows::kMost,
                              .window = 512,
                              .window_period = 5,
                              .rotary_base = 1000000,
                              .activation_key = "hidden_activation",
                              .hub_names = kGemma3nNames,
                              .gguf_window = true};
  /// The whole model, of which the language model alone is read.
  constexpr Family gemma3n_whole = [](Family family) {
    family.name = "gemma3n";
    family.hub_prefix = "model.language_model.";
    family.hub_skipped = kGemma3nOthers;
    family.text_family = "gemma3n_text";
    return family;
  }(gemma3n);
  constexpr Family qwen3_next = {.name = "qwen3_next",
                                 .gguf_name = "qwen3next",
                                 .query_key_norm = QueryKeyNorm::kHead,
                                 .attention_gate = true,
                                 .state_period = 4,
                                 .experts = true,
                                 .normalized_experts = true,
                                 .shared_expert = true,
                                 .hybrid = true,
                                 .delta = true,
                                 .context = 32768,
                                 .head_dim = 256,
                                 .partial_rotary = 0.25,
                                 .hub_names = kDeltaNames,
                                 .hub_skipped = kLaterTokens,
                                 .offset_norms = true,
                                 .gguf_experts = true};
  /// The same layers with or without experts; rows of products lie otherwise, and in its GGUFs
  /// heads of a group, too, which cannot be read.
  constexpr auto qwen3_5 = [](Family family, std::string_view name, bool experts) {
    family.name = name;
    family.gguf_name = {};
    family.experts = family.shared_expert = family.normalized_experts = experts;
    if (experts) family.fused_experts = Family::FusedExperts::kRows;
    return family;
  };
  /// The whole model, of which the language model alone is read.
  constexpr auto qwen3_5_whole = [](Family family, std::string_view name) {
    family.text_family = family.name;
    family.name = name;
    family.hub_prefix = "model.language_model.";
    family.hub_skipped = kQwenPictures;
    return family;
  };
  constexpr Family qwen3_5_dense = qwen3_5(qwen3_next, "qwen3_5_text", false);
  constexpr Family qwen3_5_moe = qwen3_5(qwen3_next, "qwen3_5_moe_text", true);
  return std::to_array<Family>({
      {.name = "bamba",
       .hybrid = true,
       .mlp_bias = true,
       .context = 262144,
       .norm_epsilon = 1e-5,
       .partial_rotary = 0.5,
       .hub_names = kBambaNames},
      {.name = "cohere",
       .gguf_name = "command-r",
       .norm = Norm::kLayerWithoutBias,
       .tied_head = true,
       .block = Block::kParallelOneNorm,
       .logit_scale = 0.0625,
       .interleaved_rotary = true,
       .context = 8192,
       .norm_epsilon = 1e-5,
       .rotary_base = 500000,
       .epsilon_key = "layer_norm_eps",
       .head_norm_key = "use_qk_norm"},
      {.name = "deepseek_v2",
       .gguf_name = "deepseek2",
       .interleaved_rotary = true,
       .experts = true,
       .shared_expert = true,
       .shared_expert_gated = false,
       .deepseek_layout = true,
       .hub_names = kDeepseekNames,
       .gguf_experts = true},
      {.name = "deepseek_v3",  // calls itself deepseek2 in GGUF
       .interleaved_rotary = true,
       .experts = true,
       .normalized_experts = true,
       .shared_expert = true,
       .shared_expert_gated = false,
       .deepseek_layout = true,
       .sigmoid_experts = true,
       .context = 4096,
       .hub_names = kDeepseekNames},
      {.name = "falcon",
       .norm = Norm::kLayer,
       .activation = Activation::kGelu,
       .gated = false,
       .tied_head = true,
       .block = Block::kParallelOneNorm,
       .bias = Bias::kAskedAll,
       .bias_key = "bias",
       .norm_epsilon = 1e-5,
       .activation_key = "activation",
       .epsilon_key = "layer_norm_epsilon",
       .hub_prefix = "transformer.",
       .hub_layers = "h.",
       .hub_names = kFalconNames,
       .grouped_qkv = true,
       .falcon_layout = true},
      {.name = "falcon_h1",
       .gguf_name = "falcon-h1",
       .hybrid = true,
       .hybrid_layers = true,
       .mlp_bias = true,
       .context = 8192,
       .norm_epsilon = 1e-5,
       .hub_names = kBambaNames},
      {.name = "gemma",
       .activation = Activation::kGeluTanh,
       .tied_head = true,
       .scaled_embeddings = true,
       .context = 8192,
       .head_dim = 256,
       .gelu_is_tanh = true,
       .offset_norms = true},
      {.name = "gemma2",
       .activation = Activation::kGeluTanh,
       .tied_head = true,
       .post_norms = true,
       .scaled_embeddings = true,
       .softcaps = true,
       .query_scale = true,
       .context = 8192,
       .head_dim = 256,
       .windows = Windows::kEven,
       .window = 4096,
       .activation_key = "hidden_activation",  // its hidden_act was a mistake
       .offset_norms = true,
       .gguf_window = true},
      {.name = "gemma3_text",
       .gguf_name = "gemma3",
       .activation = Activation::kGeluTanh,
       .tied_head = true,
       .query_key_norm = QueryKeyNorm::kHead,
       .post_norms = true,
       .scaled_embeddings = true,
       .query_scale = true,
       .local_rotary_base = 10000,
       .context = 131072,
       .head_dim = 256,
       .windows = Windows::kMost,
       .window = 4096,
       .window_period = 6,
       .rotary_base = 1000000,
       .activation_key = "hidden_activation",
       .offset_norms = true,
       .gguf_window = true},
      gemma3n_whole,
      gemma3n,
      {.name = "gpt2",
       .norm = Norm::kLayer,
       .activation = Activation::kGeluTanh,
       .gated = false,
       .tied_head = true,
       .learned_positions = true,
       .bias = Bias::kAll,
       .context = 1024,
       .norm_epsilon = 1e-5,
       .activation_key = "activation_function",
       .epsilon_key = "layer_norm_epsilon",
       .hub_prefix = "transformer.",
       .hub_layers = "h.",
       .hub_names = kGpt2Names,
       .gpt2_layout = true},
      {.name = "gpt_neox",
       .gguf_name = "gptneox",
       .norm = Norm::kLayer,
       .activation = Activation::kGelu,
       .gated = false,
       .bias = Bias::kAll,
       .norm_epsilon = 1e-5,
       .partial_rotary = 0.25,
       .epsilon_key = "layer_norm_eps",
       .parallel_key = "use_parallel_residual",
       .parallel_default = true,
       .parallel_block = Block::kParallel,
       .hub_prefix = "gpt_neox.",
       .hub_names = kGptNeoxNames,
       .grouped_qkv = true},
      {.name = "gpt_oss",
       .gguf_name = "gpt-oss",
       .sinks = true,
       .bias_default = true,
       .experts = true,
       .normalized_experts = true,
       .expert_bias = true,
       .expert_limit = 7,
       .context = 131072,
       .head_dim = 64,
       .norm_epsilon = 1e-5,
       .windows = Windows::kEven,
       .window = 128,
       .rotary_base = 150000,
       .yarn_truncated = false,
       .hub_names = kGptOssNames,
       .fused_experts = Family::FusedExperts::kAlternating,
       .gguf_window = true,
       .gguf_experts = true},
      {.name = "granite",
       .multipliers = true,
       .mlp_bias = true,
       .gguf_interleaved = true,
       .gguf_logits_divided = true},
      {.name = "granitemoehybrid",
       .gguf_name = "granitehybrid",
       .multipliers = true,
       .experts = true,
       .normalized_experts = true,
       .shared_expert = true,
       .shared_expert_gated = false,
       .shared_alone = true,
       .hybrid = true,
       .shared_key = "shared_intermediate_size",
       .rotary_key = "position_embedding_type",
       .hub_names = kGraniteHybridNames,
       .fused_experts = Family::FusedExperts::kRows,
       .gguf_interleaved = true,
       .gguf_experts = true,
       .gguf_logits_divided = true},
      {.name = "idefics3",
       .gguf_name = "llama",
       .mlp_bias = true,
       .hub_prefix = "model.text_model.",
       .gguf_interleaved = true,
       .text_family = "llama",
       .vision = true},
      {.name = "llama",
       .normalized_experts = true,  // mixtral calls itself llama in GGUF
       .mlp_bias = true,
       .gguf_interleaved = true,
       .gguf_window = true,
       .gguf_experts = true},
      llama4_whole,
      llama4,
      {.name = "mamba2",
       .bias = Bias::kAskedAll,
       .bias_key = "use_bias",
       .state_space = true,
       .context = 1048576,
       .norm_epsilon = 1e-5,
       .epsilon_key = "layer_norm_epsilon",
       .hub_prefix = "backbone.",
       .hub_names = kMamba2Names},
      {.name = "mistral",
       .bias = Bias::kNone,
       .context = 131072,
       .windows = Windows::kAll,
       .window = 4096},
      {.name = "mixtral",
       .bias = Bias::kNone,
       .experts = true,
       .normalized_experts = true,
       .context = 131072,
       .norm_epsilon = 1e-5,
       .windows = Windows::kAll,
       .rotary_base = 1000000,
       .hub_names = kMixtralNames},
      {.name = "olmo2",
       .query_key_norm = QueryKeyNorm::kAllHeads,
       .pre_norms = false,
       .post_norms = true,
       .norm_epsilon = 1e-5},
      {.name = "olmoe",
       .query_key_norm = QueryKeyNorm::kAllHeads,
       .experts = true,
       .context = 4096,
       .norm_epsilon = 1e-5,
       .gguf_experts = true},
      {.name = "phi",
       .gguf_name = "phi2",
       .norm = Norm::kLayer,
       .activation = Activation::kGeluTanh,
       .gated = false,
       .block = Block::kParallelOneNorm,
       .bias = Bias::kAll,
       .head_bias = true,
       .norm_epsilon = 1e-5,
       .partial_rotary = 0.5,
       .epsilon_key = "layer_norm_eps",
       .head_norm_key = "qk_layernorm",
       .hub_names = kPhiNames},
      {.name = "phi3",
       .bias = Bias::kNone,
       .context = 4096,
       .norm_epsilon = 1e-5,
       .windows = Windows::kAll,
       .layer_types = false,
       .original_context = 4096,
       .partial_rotary = 1,
       .yarn_is_longrope = true,
       .gguf_window = true,
       .gguf_specials_rstrip = true},
      {.name = "qwen2",
       .bias = Bias::kAttentionInputs,
       .context = 32768,
       .windows = Windows::kLater,
       .window = 4096,
       .window_asked = true},
      {.name = "qwen2_moe",
       .gguf_name = "qwen2moe",
       .bias = Bias::kAttentionInputs,
       .experts = true,
       .shared_expert = true,
       .context = 32768,
       .windows = Windows::kLater,
       .window = 4096,
       .window_asked = true,
       .gguf_experts = true},
      {.name = "qwen3",
       .query_key_norm = QueryKeyNorm::kHead,
       .context = 32768,
       .head_dim = 128,
       .windows = Windows::kLater,
       .window = 4096,
       .window_asked = true},
      qwen3_5_whole(qwen3_5_dense, "qwen3_5"),
      qwen3_5_whole(qwen3_5_moe, "qwen3_5_moe"),
      qwen3_5_moe,
      qwen3_5_dense,
      {.name = "qwen3_moe",
       .gguf_name = "qwen3moe",
       .query_key_norm = QueryKeyNorm::kHead,
       .experts = true,
       .normalized_experts = true,
       .context = 32768,
       .windows = Windows::kLater,
       .window = 4096,
       .window_asked = true,
       .gguf_experts = true},
      qwen3_next,
      {.name = "smollm3",
       .tied_head = true,
       .rotary_period = 4,
       .mlp_bias = true,
       .context = 32768,
       .window_asked = true,
       .rotary_base = 2000000,
       .gguf_interleaved = true},
      {.name = "smolvlm",
       .gguf_name = "llama",
       .mlp_bias = true,
       .hub_prefix = "model.text_model.",
       .gguf_interleaved = true,
       .text_family = "llama",
       .vision = true},
      {.name = "stablelm",
       .norm = Norm::kLayer,
       .bias = Bias::kAskedInputs,
       .bias_key = "use_qkv_bias",
       .context = 4096,
       .norm_epsilon = 1e-5,
       .partial_rotary = 0.25,
       .epsilon_key = "layer_norm_eps",
       .parallel_key = "use_parallel_residual",
       .parallel_block = Block::kParallelOneNorm,
       .head_norm_key = "qk_layernorm"},
      {.name = "starcoder2",
       .norm = Norm::kLayer,
       .activation = Activation::kGeluTanh,
       .gated = false,
       .tied_head = true,
       .bias = Bias::kAskedAll,
       .bias_key = "use_bias",
       .bias_default = true,
       .context = 4096,
       .norm_epsilon = 1e-5,
       .windows = Windows::kAll,
       .epsilon_key = "norm_epsilon",
       .hub_names = kStarcoder2Names},
  });
}();

}  // namespace

const Family* FindFamily(std::string_view name) {
  const auto* found = std::ranges::find(kFamilies, name, &Family::name);
  return found == kFamilies.end() ? nullptr : found;
}

const Family* FindGgufFamily(std::string_view architecture) {
  const auto* found = std::ranges::find_if(kFamilies, [&](const Family& family) {
    return family.text_family.empty() &&  // there the language model alone is a GGUF
           (family.gguf_name.empty() ? family.name : family.gguf_name) == architecture;
  });
  return found == kFamilies.end() ? nullptr : found;
}

const Family& FamilyOf(const DecoderConfig& config) {
  if (const Family* family = FindFamily(config.family)) return *family;
  throw Error(ErrorCode::kInternal, "there is no family " + Quote(config.family));
}

std::string SupportedFamilies() {
  std::string text;
  for (const Family& family : kFamilies) {
    const bool last = &family == &kFamilies.back();
    text += (text.empty() ? "" : last ? " and " : ", ") + std::string(family.name);
  }
  return text;
}

namespace {

DecoderConfig BeginConfig(const Family* family, std::string_view name) {
  if (family == nullptr) {
    throw Error(ErrorCode::kUnsupported, "language models of the family " + Quote(name) +
                                             " cannot be read; those of " + SupportedFamilies() +
                                             " can");
  }
  DecoderConfig config;
  config.family = family->name;
  config.norm = family->norm;
  config.activation = family->activation;
  config.gated = family->gated;
  config.tied_head = family->tied_head;
  config.block = family->block;
  config.query_key_norm = family->query_key_norm;
  config.pre_norms = family->pre_norms;
  config.post_norms = family->post_norms;
  config.sinks = family->sinks;
  config.attention_gate = family->attention_gate;
  config.state_space.delta = family->delta;
  config.learned_positions = family->learned_positions;
  config.chunked_windows = family->chunked_windows;
  config.temperature = family->temperature;
  config.experts.scales_inputs = family->scales_expert_inputs;
  config.value_norms = family->altup;
  return config;
}

}  // namespace

DecoderConfig RequireFamily(std::string_view name) { return BeginConfig(FindFamily(name), name); }

DecoderConfig RequireGgufFamily(std::string_view architecture) {
  return BeginConfig(FindGgufFamily(architecture), architecture);
}

bool IsWindowed(const Family& family, int64_t layer, int64_t period) {
  switch (family.windows) {
    case Family::Windows::kAll: return true;
    case Family::Windows::kEven: return layer % 2 == 0;
    case Family::Windows::kMost: return period > 0 && (layer + 1) % period != 0;
    case Family::Windows::kNone:
    case Family::Windows::kLater: break;
  }
  return false;
}

}  // namespace oort
