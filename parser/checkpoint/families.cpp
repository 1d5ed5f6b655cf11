// SPDX-License-Identifier: MIT
#include "parser/checkpoint/families.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/problems.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr std::string_view kFamilies[] = {"gemma",   "gemma2", "gpt2",  "llama",
                                          "mistral", "phi3",   "qwen2", "qwen3"};

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

std::optional<DecoderConfig> BeginFamily(std::string_view family) {
  if (std::find(std::begin(kFamilies), std::end(kFamilies), family) == std::end(kFamilies)) {
    return std::nullopt;
  }
  DecoderConfig config;
  config.family = family;
  config.query_key_norm = family == "qwen3";
  if (family == "gemma" || family == "gemma2") {
    config.activation = Activation::kGeluTanh;
    config.tied_head = true;
    config.post_norms = family == "gemma2";
  }
  if (family == "gpt2") {
    config.norm = DecoderConfig::Norm::kLayer;
    config.activation = Activation::kGeluTanh;
    config.gated = false;
    config.tied_head = true;
    config.learned_positions = true;
  }
  return config;
}

std::string SupportedFamilies() {
  std::string text;
  for (const std::string_view& family : kFamilies) {
    const bool last = &family == std::end(kFamilies) - 1;
    text += (text.empty() ? "" : last ? " and " : ", ") + std::string(family);
  }
  return text;
}

DecoderConfig RequireFamily(std::string_view family) {
  if (auto config = BeginFamily(family)) return *config;
  throw Error(ErrorCode::kUnsupported, "language models of the family " + Quote(family) +
                                           " cannot be read; those of " + SupportedFamilies() +
                                           " can");
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
