// SPDX-License-Identifier: MIT
#include "parser/checkpoint/families.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/problems.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr auto kFamilies = [] {
  using Bias = Family::Bias;
  using Windows = Family::Windows;
  return std::to_array<Family>({
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
       .context = 8192,
       .head_dim = 256,
       .windows = Windows::kEven,
       .window = 4096,
       .activation_key = "hidden_activation",  // its hidden_act was a mistake
       .offset_norms = true,
       .gguf_window = true},
      {.name = "gpt2",
       .norm = DecoderConfig::Norm::kLayer,
       .activation = Activation::kGeluTanh,
       .gated = false,
       .tied_head = true,
       .learned_positions = true,
       .bias = Bias::kAll,
       .context = 1024,
       .norm_epsilon = 1e-5,
       .activation_key = "activation_function",
       .gpt2_layout = true},
      {.name = "llama", .mlp_bias = true, .gguf_interleaved = true, .gguf_window = true},
      {.name = "mistral",
       .bias = Bias::kNone,
       .context = 131072,
       .windows = Windows::kAll,
       .window = 4096},
      {.name = "phi3",
       .bias = Bias::kNone,
       .context = 4096,
       .norm_epsilon = 1e-5,
       .windows = Windows::kAll,
       .layer_types = false,
       .original_context = 4096,
       .partial_rotary = true,
       .yarn_is_longrope = true,
       .gguf_window = true,
       .gguf_specials_rstrip = true},
      {.name = "qwen2",
       .bias = Bias::kAttentionInputs,
       .context = 32768,
       .windows = Windows::kLater,
       .window = 4096,
       .window_asked = true},
      {.name = "qwen3",
       .query_key_norm = true,
       .context = 32768,
       .head_dim = 128,
       .windows = Windows::kLater,
       .window = 4096,
       .window_asked = true},
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

void CheckRotary(const DecoderConfig& config, Ranges& ranges) {
  const RotaryConfig& rotary = config.rotary;
  const auto pairs = static_cast<size_t>(rotary.dims / 2);
  ranges.Check("the number of rotated dimensions", rotary.dims, config.head_dim, 0);
  ranges.Require(rotary.dims % 2 == 0 && rotary.frequencies.size() == pairs &&
                     (rotary.long_frequencies.empty() || rotary.long_frequencies.size() == pairs),
                 "the rotary embedding has not one frequency for two dimensions");
  ranges.Require(AreFinite(rotary.frequencies) && AreFinite(rotary.long_frequencies) &&
                     std::isfinite(rotary.magnitude) && std::isfinite(rotary.long_magnitude),
                 "a frequency of the rotary embedding is not finite");
}

}  // namespace

const Family* FindFamily(std::string_view name) {
  const auto* found = std::ranges::find(kFamilies, name, &Family::name);
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

DecoderConfig RequireFamily(std::string_view name) {
  const Family* family = FindFamily(name);
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
  config.query_key_norm = family->query_key_norm;
  config.post_norms = family->post_norms;
  config.learned_positions = family->learned_positions;
  return config;
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
  CheckRotary(config, ranges);
  for (const int64_t window : config.windows) {
    ranges.Check("the attention window", window, INT64_MAX, 0);
  }
  ranges.Throw();
  if (config.attention_scale == 0) {
    config.attention_scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
  }
  config.windows.resize(static_cast<size_t>(config.layers));
}

}  // namespace oort
