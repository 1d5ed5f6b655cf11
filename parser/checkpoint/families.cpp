// SPDX-License-Identifier: MIT
#include "parser/checkpoint/families.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/problems.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr RenamedTensor kDeepseekNames[] = {
    {"self_attn.q_a_layernorm", "self_attn.q_a_norm"},
    {"self_attn.kv_a_layernorm", "self_attn.kv_a_norm"},
    {"mlp.gate.e_score_correction_bias", "mlp.gate_correction.bias"},
    {"mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj"},
    {"mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj"},
    {"mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj"},
};
constexpr RenamedTensor kFalconNames[] = {
    {"word_embeddings", "embed_tokens"},
    {"ln_f", "norm"},
    {"ln_attn", "input_layernorm"},
    {"ln_mlp", "post_attention_layernorm"},
    {"self_attention.query_key_value", "self_attn.qkv_proj"},
    {"self_attention.dense", "self_attn.o_proj"},
    {"mlp.dense_h_to_4h", "mlp.up_proj"},
    {"mlp.dense_4h_to_h", "mlp.down_proj"},
};
constexpr RenamedTensor kGpt2Names[] = {
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
constexpr RenamedTensor kGptNeoxNames[] = {
    {"embed_in", "embed_tokens"},
    {"embed_out", "lm_head"},
    {"final_layer_norm", "norm"},
    {"attention.query_key_value", "self_attn.qkv_proj"},
    {"attention.dense", "self_attn.o_proj"},
    {"mlp.dense_h_to_4h", "mlp.up_proj"},
    {"mlp.dense_4h_to_h", "mlp.down_proj"},
};
constexpr RenamedTensor kGptOssNames[] = {
    {"self_attn.sinks", "self_attn.sinks.weight"},
    {"mlp.router", "mlp.gate"},
    {"mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj.weight"},
    {"mlp.experts.gate_up_proj_bias", "mlp.experts.gate_up_proj.bias"},
    {"mlp.experts.down_proj", "mlp.experts.down_proj.weight"},
    {"mlp.experts.down_proj_bias", "mlp.experts.down_proj.bias"},
};
constexpr RenamedTensor kMixtralNames[] = {
    {"block_sparse_moe.gate", "mlp.gate"},
    {"w1", "gate_proj"},
    {"w2", "down_proj"},
    {"w3", "up_proj"},
};
constexpr RenamedTensor kPhiNames[] = {
    {"final_layernorm", "norm"},
    {"self_attn.dense", "self_attn.o_proj"},
    {"mlp.fc1", "mlp.up_proj"},
    {"mlp.fc2", "mlp.down_proj"},
};
constexpr RenamedTensor kStarcoder2Names[] = {
    {"mlp.c_fc", "mlp.up_proj"},
    {"mlp.c_proj", "mlp.down_proj"},
};

constexpr auto kFamilies = [] {
  using Bias = Family::Bias;
  using Block = DecoderConfig::Block;
  using Norm = DecoderConfig::Norm;
  using QueryKeyNorm = DecoderConfig::QueryKeyNorm;
  using Windows = Family::Windows;
  return std::to_array<Family>({
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
       .fused_experts = true,
       .gguf_window = true,
       .gguf_experts = true},
      {.name = "granite",
       .multipliers = true,
       .mlp_bias = true,
       .gguf_interleaved = true,
       .gguf_logits_divided = true},
      {.name = "idefics3",
       .gguf_name = "llama",
       .mlp_bias = true,
       .hub_prefix = "model.text_model.",
       .gguf_interleaved = true,
       .vision = true},
      {.name = "llama",
       .normalized_experts = true,  // mixtral calls itself llama in GGUF
       .mlp_bias = true,
       .gguf_interleaved = true,
       .gguf_window = true,
       .gguf_experts = true},
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

/// Collects what is out of range.
class Ranges {
 public:
  void Check(std::string_view what, int64_t value, int64_t most, int64_t least = 1) {
    if (value >= least && value <= most) return;
    problems_.Add(ErrorCode::kInvalidModel, std::string(what) + " is " + std::to_string(value) +
                                                ", not between " + std::to_string(least) + " and " +
                                                std::to_string(most));
  }
  void CheckNumber(std::string_view what, float value, float least) {
    if (std::isfinite(value) && value >= least) return;
    problems_.Add(ErrorCode::kInvalidModel,
                  std::string(what) + " is " + std::to_string(value) + ", no sensible number");
  }
  void Require(bool condition, const std::string& message) {
    if (!condition) problems_.Add(ErrorCode::kInvalidModel, message);
  }
  void Throw() const { problems_.Throw("the model's configuration makes no sense"); }

 private:
  ProblemList problems_;
};

bool AreFinite(const std::vector<float>& numbers) {
  for (const float x : numbers) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

void CheckRotary(const RotaryConfig& rotary, const DecoderConfig& config, Ranges& ranges) {
  const auto pairs = static_cast<size_t>(rotary.dims / 2);
  ranges.Check("the number of rotated dimensions", rotary.dims, config.head_dim, 0);
  ranges.Require(rotary.dims % 2 == 0 && rotary.frequencies.size() == pairs &&
                     (rotary.long_frequencies.empty() || rotary.long_frequencies.size() == pairs),
                 "the rotary embedding has not one frequency for two dimensions");
  ranges.Require(AreFinite(rotary.frequencies) && AreFinite(rotary.long_frequencies) &&
                     std::isfinite(rotary.magnitude) && std::isfinite(rotary.long_magnitude),
                 "a frequency of the rotary embedding is not finite");
}

void CheckExperts(const DecoderConfig& config, Ranges& ranges) {
  const ExpertsConfig& experts = config.experts;
  ranges.Check("the number of experts", experts.count, 65536, 0);
  if (experts.count == 0) return;
  ranges.Check("the number of experts that a token uses", experts.used, experts.count);
  ranges.Check("the size of an expert", experts.intermediate, int64_t{1} << 24);
  ranges.CheckNumber("the limit of an expert's products", experts.limit, 0);
  ranges.CheckNumber("the scale of experts' weights", experts.scale, 0);
  ranges.Check("the number of groups of experts", experts.groups, experts.count);
  ranges.Check("the number of groups that a token uses", experts.groups_used, experts.groups);
  ranges.Require(experts.groups < 1 || experts.count % experts.groups != 0
                     ? false
                     : experts.used <= experts.count / experts.groups * experts.groups_used,
                 std::to_string(experts.used) + " of " + std::to_string(experts.count) +
                     " experts cannot come from " + std::to_string(experts.groups_used) + " of " +
                     std::to_string(experts.groups) + " groups");
  ranges.Check("the size of the shared expert", experts.shared_intermediate, int64_t{1} << 24, 0);
}

void CheckLatent(const LatentConfig& latent, Ranges& ranges) {
  constexpr int64_t kMost = int64_t{1} << 16;
  if (latent.rank == 0) return;
  ranges.Check("the rank of keys and values", latent.rank, kMost);
  ranges.Check("the rank of queries", latent.query_rank, kMost, 0);
  ranges.Check("the part of a head that does not turn", latent.plain, kMost);
  ranges.Check("the part of a head that turns", latent.turned, kMost);
  ranges.Check("the size of a head's value", latent.value, kMost);
}

}  // namespace

const Family* FindFamily(std::string_view name) {
  const auto* found = std::ranges::find(kFamilies, name, &Family::name);
  return found == kFamilies.end() ? nullptr : found;
}

const Family* FindGgufFamily(std::string_view architecture) {
  const auto* found = std::ranges::find_if(kFamilies, [&](const Family& family) {
    return !family.vision &&  // there the language model alone is a GGUF, which says llama
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
  config.learned_positions = family->learned_positions;
  return config;
}

/// Layers that differ from the others by their family's rule, where no file has said so already.
void FinishRotary(const Family& family, DecoderConfig& config) {
  using LayerRotary = DecoderConfig::LayerRotary;
  const bool local = family.local_rotary_base > 0;
  if (!config.layer_rotary.empty() || (!local && family.rotary_period == 0)) return;
  for (int64_t i = 0; i < config.layers; ++i) {
    const bool none = family.rotary_period > 0 && (i + 1) % family.rotary_period == 0;
    const bool windowed = local && config.windows[static_cast<size_t>(i)] > 0;
    config.layer_rotary.push_back(none       ? LayerRotary::kNone
                                  : windowed ? LayerRotary::kLocal
                                             : LayerRotary::kUsual);
  }
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

void FinishConfig(DecoderConfig& config) {
  Ranges ranges;
  ranges.Check("the size of the vocabulary", config.vocabulary, (int64_t{1} << 31) - 1);
  ranges.Check("the hidden size", config.hidden, int64_t{1} << 20);
  ranges.Check("the number of layers", config.layers, 4096);
  ranges.Check("the number of attention heads", config.heads, int64_t{1} << 16);
  ranges.Check("the number of key and value heads", config.kv_heads, int64_t{1} << 16);
  ranges.Check("the size of a head", config.head_dim, int64_t{1} << 16);
  ranges.Check("the size of the feed-forward layer", config.intermediate, int64_t{1} << 24);
  ranges.Check("the context length", config.context, (int64_t{1} << 31) - 1);
  ranges.Require(config.kv_heads < 1 || config.heads % config.kv_heads == 0,
                 std::to_string(config.heads) + " attention heads cannot share " +
                     std::to_string(config.kv_heads) + " key and value heads evenly");
  ranges.CheckNumber("the epsilon of the norms", config.norm_epsilon, 0);
  ranges.CheckNumber("the scale of the embeddings", config.embedding_scale, 0);
  ranges.CheckNumber("the scale of attention", config.attention_scale, 0);
  ranges.CheckNumber("the softcap of attention", config.attention_softcap, 0);
  ranges.CheckNumber("the softcap of the logits", config.final_softcap, 0);
  ranges.CheckNumber("the scale of what layers add", config.residual_scale, 0);
  ranges.CheckNumber("the scale of the logits", config.logit_scale, 0);
  CheckRotary(config.rotary, config, ranges);
  CheckRotary(config.local_rotary, config, ranges);
  CheckExperts(config, ranges);
  CheckLatent(config.latent, ranges);
  for (const int64_t window : config.windows) {
    ranges.Check("the attention window", window, INT64_MAX, 0);
  }
  ranges.Throw();
  if (config.attention_scale == 0) {
    config.attention_scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
  }
  config.windows.resize(static_cast<size_t>(config.layers));
  FinishRotary(FamilyOf(config), config);
}

}  // namespace oort
