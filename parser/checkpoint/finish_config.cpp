// SPDX-License-Identifier: MIT
// What a config must be like, whatever file it came from.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/problems.h"
#include "oort/error.h"
#include "parser/checkpoint/families.h"

namespace oort {
namespace {

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

void CheckStateSpace(const StateSpaceConfig& state, Ranges& ranges) {
  if (state.heads == 0) return;
  ranges.Check("the number of heads with a state", state.heads, int64_t{1} << 16);
  ranges.Check("the size of a head with a state", state.head_dim, int64_t{1} << 16);
  ranges.Check("the size of the state", state.size, int64_t{1} << 16);
  ranges.Check("the number of groups", state.groups, int64_t{1} << 16);
  ranges.Require(state.groups < 1 || state.heads % state.groups == 0,
                 std::to_string(state.heads) + " heads cannot share " +
                     std::to_string(state.groups) + " groups evenly");
  ranges.Check("the number of taps of the convolution", state.taps, 1024, 2);
  ranges.CheckNumber("the least time step", state.least_step, 0);
  ranges.CheckNumber("the largest time step", state.most_step, 0);
  ranges.Require(state.most_step == 0 || state.least_step <= state.most_step,
                 "the least time step is more than the largest");
}

void CheckStreams(const DecoderConfig& config, Ranges& ranges) {
  const AltUpConfig& altup = config.altup;
  ranges.Check("the number of layers that share keys and values", config.shared_layers,
               std::max<int64_t>(config.layers, 1) - 1, 0);
  if (altup.streams == 0) return;  // a converted model keeps nothing of them but the graph
  ranges.Check("the number of residual streams", altup.streams, 64, 2);
  ranges.Check("the index of the active stream", altup.active, altup.streams - 1, 0);
  ranges.Check("the rank of the second residual", altup.laurel, int64_t{1} << 20);
  ranges.Check("the size of the embeddings for layers", altup.per_layer, int64_t{1} << 16);
  ranges.Check("the number of tokens with embeddings for layers", altup.vocabulary,
               (int64_t{1} << 31) - 1);
}

/// Once the windows are those of all layers.
void CheckSharedKeys(const DecoderConfig& config) {
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (config.KeysOf(layer) >= 0) continue;
    throw Error(ErrorCode::kInvalidModel, "no layer before has the keys and values that layer " +
                                              std::to_string(layer) + " should share");
  }
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
  const ProductScales& scales = config.scales;
  const StateSpaceConfig& state = config.state_space;
  for (const float scale :
       {scales.attention, scales.state, scales.gate, scales.feed_forward, state.gate_scale,
        state.x_scale, state.b_scale, state.c_scale, state.step_scale}) {
    ranges.CheckNumber("the scale of a product", scale, std::numeric_limits<float>::lowest());
  }
  CheckRotary(config.rotary, config, ranges);
  CheckRotary(config.local_rotary, config, ranges);
  CheckExperts(config, ranges);
  CheckLatent(config.latent, ranges);
  CheckStateSpace(config.state_space, ranges);
  CheckStreams(config, ranges);
  ranges.Check("the length that queries grow by", config.temperature.length, (int64_t{1} << 31) - 1,
               0);
  ranges.CheckNumber("how much queries grow", config.temperature.scale, 0);
  ranges.Require(config.temperature.length == 0 || config.rotary.dims > 0,
                 "queries grow where layers do not turn, but no layer turns");
  for (const int64_t window : config.windows) {
    ranges.Check("the attention window", window, INT64_MAX, 0);
  }
  ranges.Throw();
  if (config.attention_scale == 0) {
    config.attention_scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
  }
  config.windows.resize(static_cast<size_t>(config.layers));
  CheckSharedKeys(config);
  FinishRotary(FamilyOf(config), config);
}

}  // namespace oort
