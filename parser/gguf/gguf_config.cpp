// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked.h"
#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/rotary.h"

namespace oort::gguf {
namespace {

constexpr int64_t kLayersOfGemma2_27b = 46;
constexpr int64_t kLayersOfGemma3_27b = 62;

/// Keys of the architecture: "llama." stands before all of them.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }
  std::optional<int64_t> Integer(std::string_view name) const {
    return metadata_.Integer(Key(name));
  }
  std::optional<double> Number(std::string_view name) const { return metadata_.Number(Key(name)); }
  float Float(std::string_view name, double otherwise) const {
    return static_cast<float>(Number(name).value_or(otherwise));
  }

  /// A number that may be stored for each layer, if it is the same for all of them.
  std::optional<int64_t> OfAllLayers(std::string_view name) const {
    const std::vector<int64_t> numbers = metadata_.Integers(Key(name));
    if (numbers.empty()) return std::nullopt;
    if (std::count(numbers.begin(), numbers.end(), numbers[0]) !=
        static_cast<std::ptrdiff_t>(numbers.size())) {
      throw Error(ErrorCode::kUnsupported,
                  "the value of " + Quote(Key(name)) + " differs from layer to layer");
    }
    return numbers[0];
  }

  template <typename T>
  T Require(std::optional<T> value, std::string_view name) const {
    if (value) return *value;
    throw Error(ErrorCode::kInvalidModel, "the key " + Quote(Key(name)) + " is missing");
  }

 private:
  const Metadata& metadata_;
  std::string prefix_;
};

/// The kind of rope scaling that the metadata names.
RotaryScaling ReadScaling(const ArchitectureKeys& keys, const Metadata& metadata,
                          const Family& family) {
  using Kind = RotaryScaling::Kind;
  RotaryScaling scaling;
  const std::string type(metadata.Text(keys.Key("rope.scaling.type")).value_or("linear"));
  const std::string name =
      metadata.Has(keys.Key("rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = keys.Number(name).value_or(1);
  scaling.factor = factor == 0 ? 1 : factor;  // 0 stands for "not set"
  scaling.original_context = keys.Integer("rope.scaling.original_context_length").value_or(0);
  const double magnitude = keys.Number("rope.scaling.attn_factor").value_or(1) *
                           keys.Number("rope.scaling.yarn_attn_factor").value_or(1);
  if (type == "linear") {
    scaling.kind = Kind::kLinear;
  } else if (type == "yarn") {
    scaling.kind = Kind::kYarn;
    scaling.truncate = family.yarn_truncated;
    scaling.extrapolation = keys.Number("rope.scaling.yarn_ext_factor").value_or(1);
    scaling.beta_fast = keys.Number("rope.scaling.yarn_beta_fast").value_or(32);
    scaling.beta_slow = keys.Number("rope.scaling.yarn_beta_slow").value_or(1);
    if (scaling.original_context == 0) {
      scaling.original_context = keys.Integer("context_length").value_or(0);
    }
    // What is stored comes on top of what yarn itself says, unless scores are multiplied instead.
    const bool of_scores = keys.Number("rope.scaling.yarn_log_multiplier").has_value();
    const double own = scaling.factor > 1 && !of_scores ? 0.1 * std::log(scaling.factor) + 1 : 1;
    scaling.attention_factor = own * magnitude;
  } else if (type != "none" && type != "longrope") {
    throw Error(ErrorCode::kUnsupported, "rope scaling of type " + Quote(type) +
                                             " is not known; linear, yarn, longrope and none are");
  }
  return scaling;
}

void ReadRotary(const ArchitectureKeys& keys, const Metadata& metadata,
                const RotaryFactors& factors, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  RotaryScaling scaling = ReadScaling(keys, metadata, family);
  if (!factors.long_factors.empty()) {
    scaling.kind = RotaryScaling::Kind::kLongrope;
    scaling.short_factors = factors.short_factors;
    scaling.long_factors = factors.long_factors;
    if (scaling.original_context == 0) scaling.original_context = config.context;
    scaling.factor =
        static_cast<double>(config.context) / static_cast<double>(scaling.original_context);
    scaling.attention_factor = keys.Number("rope.scaling.attn_factor");
  } else if (!factors.frequencies.empty()) {
    if (scaling.kind == RotaryScaling::Kind::kYarn || scaling.factor != 1) {
      throw Error(ErrorCode::kUnsupported,
                  "rope_freqs.weight together with another rope scaling is not known");
    }
    scaling.kind = RotaryScaling::Kind::kDivided;
    scaling.short_factors = factors.frequencies;
  }
  const int64_t dims = keys.Integer("rope.dimension_count").value_or(config.head_dim);
  config.rotary = MakeRotary(dims, keys.Number("rope.freq_base").value_or(10000), scaling);
  // The rows of q and k were reordered for it when the file was made.
  config.rotary.interleaved = family.gguf_interleaved || family.interleaved_rotary;
  if (family.local_rotary_base == 0) return;
  // What stretches to longer contexts is for the layers that see them.
  const double local = keys.Number("rope.freq_base_swa").value_or(family.local_rotary_base);
  config.local_rotary = MakeRotary(dims, local, {});
}

void ReadDeepseekExperts(const ArchitectureKeys& keys, const Metadata& metadata,
                         DecoderConfig& config) {
  constexpr int64_t kSigmoid = 2;
  ExpertsConfig& experts = config.experts;
  experts.shared_intermediate = CheckedMultiply(keys.Integer("expert_shared_count").value_or(0),
                                                std::max<int64_t>(0, experts.intermediate));
  experts.scale = keys.Float("expert_weights_scale", 1);
  experts.normalized = metadata.Bool(keys.Key("expert_weights_norm")).value_or(false);
  experts.sigmoid = keys.Integer("expert_gating_func").value_or(1) == kSigmoid;
  experts.groups = keys.Integer("expert_group_count").value_or(1);
  experts.groups_used = keys.Integer("expert_group_used_count").value_or(experts.groups);
  const int64_t first = keys.Integer("leading_dense_block_count").value_or(0);
  if (first <= 0 || config.layers < 1 || config.layers > 4096) return;
  experts.dense.assign(static_cast<size_t>(config.layers), false);
  std::fill_n(experts.dense.begin(), std::min(first, config.layers), true);
}

/// Experts of every so manieth layer; the shared one is as large as they are.
void ReadInterleavedExperts(const ArchitectureKeys& keys, DecoderConfig& config) {
  constexpr int64_t kExpertsWithoutNorms = 128;  // no key says so
  ExpertsConfig& experts = config.experts;
  experts.sigmoid = FamilyOf(config).sigmoid_experts;
  experts.intermediate =
      keys.Require(keys.Integer("expert_feed_forward_length"), "expert_feed_forward_length");
  experts.shared_intermediate = experts.intermediate;
  if (experts.count == kExpertsWithoutNorms) {
    config.query_key_norm = DecoderConfig::QueryKeyNorm::kNone;
  }
  const int64_t step =
      keys.Require(keys.Integer("interleave_moe_layer_step"), "interleave_moe_layer_step");
  if (step < 1) {
    throw Error(ErrorCode::kInvalidModel,
                "the key " + Quote(keys.Key("interleave_moe_layer_step")) + " is not above 0");
  }
  if (step == 1 || config.layers < 1 || config.layers > 4096) return;
  for (int64_t i = 0; i < config.layers; ++i) experts.dense.push_back((i + 1) % step != 0);
}

/// Attention whose keys and values come from one latent vector. Older files tell the sizes of heads
/// where newer ones tell those of the cache.
void ReadLatent(const ArchitectureKeys& keys, DecoderConfig& config) {
  LatentConfig& latent = config.latent;
  const auto size = [&](std::string_view newer, std::string_view older) {
    const auto value = keys.Integer(newer);
    return keys.Require(value ? value : keys.Integer(older), older);
  };
  const std::string_view rank = "attention.kv_lora_rank", turned = "rope.dimension_count";
  latent.rank = keys.Require(keys.Integer(rank), rank);
  latent.query_rank = keys.Integer("attention.q_lora_rank").value_or(0);
  latent.turned = keys.Require(keys.Integer(turned), turned);
  const int64_t head = size("attention.key_length_mla", "attention.key_length");
  latent.value = size("attention.value_length_mla", "attention.value_length");
  if (latent.rank < 1 || latent.rank > 65536 || latent.turned < 1 || latent.turned > 65536 ||
      head <= latent.turned || head > 65536) {
    throw Error(ErrorCode::kInvalidModel, "the sizes of latent attention make no sense");
  }
  latent.plain = head - latent.turned;
  config.head_dim = latent.rank + latent.turned;
  config.kv_heads = 1;
  double magnitude = 1;
  if (const auto share = keys.Number("rope.scaling.yarn_log_multiplier")) {
    const double factor = keys.Number("rope.scaling.factor").value_or(1);
    if (factor > 1) magnitude += *share * std::log(factor);
  }
  config.attention_scale =
      static_cast<float>(magnitude * magnitude / std::sqrt(static_cast<double>(head)));
}

void ReadExperts(const ArchitectureKeys& keys, const Metadata& metadata, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  ExpertsConfig& experts = config.experts;
  experts.count = keys.Integer("expert_count").value_or(0);
  if (experts.count == 0) return;
  if (!family.gguf_experts) {
    throw Error(ErrorCode::kUnsupported, "mixtures of experts of the architecture " +
                                             Quote(keys.Key("")) + " are not supported");
  }
  experts.used = keys.Require(keys.Integer("expert_used_count"), "expert_used_count");
  experts.intermediate = keys.Integer("expert_feed_forward_length").value_or(0);
  experts.normalized = family.normalized_experts;
  experts.limit = static_cast<float>(family.expert_limit);
  experts.shared_gated = family.shared_expert_gated;
  if (family.deepseek_layout) {
    ReadDeepseekExperts(keys, metadata, config);
  } else if (!family.dense_key.empty()) {
    ReadInterleavedExperts(keys, config);
  } else if (family.shared_expert) {
    const std::string_view shared = "expert_shared_feed_forward_length";
    experts.shared_intermediate = keys.Require(keys.Integer(shared), shared);
  }
}

void ReadStateSpace(const ArchitectureKeys& keys, StateSpaceConfig& state) {
  const auto require = [&](std::string_view name) {
    return keys.Require(keys.Integer(name), name);
  };
  state.heads = require("ssm.time_step_rank");
  const int64_t inner = require("ssm.inner_size");
  if (state.heads < 1 || inner < 1 || inner % state.heads != 0) {
    throw Error(ErrorCode::kInvalidModel,
                "the sizes of the state space make no sense: " + std::to_string(state.heads) +
                    " heads of " + std::to_string(inner) + " numbers in all");
  }
  state.head_dim = inner / state.heads;
  state.size = require("ssm.state_size");
  state.groups = keys.Integer("ssm.group_count").value_or(1);
  state.taps = require("ssm.conv_kernel");
}

/// Keys of attention and feed-forward say nothing of such models.
void ReadMixersAlone(const ArchitectureKeys& keys, DecoderConfig& config) {
  const StateSpaceConfig& state = config.state_space;
  ReadStateSpace(keys, config.state_space);
  config.heads = config.kv_heads = state.heads;
  config.head_dim = state.head_dim;
  config.intermediate = state.inner();
}

/// Layers with a delta rule: those that the file lists, or all but every so manieth.
void ReadDeltaLayers(const ArchitectureKeys& keys, const Metadata& metadata,
                     DecoderConfig& config) {
  const std::string_view list = "attention.recurrent_layers", every = "full_attention_interval";
  const std::vector<bool> listed = metadata.Bools(keys.Key(list));
  if (!listed.empty() && std::ssize(listed) != config.layers) {
    throw Error(ErrorCode::kInvalidModel,
                "the key " + Quote(keys.Key(list)) + " does not list every layer");
  }
  const int64_t period = keys.Integer(every).value_or(FamilyOf(config).state_period);
  if (period < 1) {
    throw Error(ErrorCode::kInvalidModel, "the key " + Quote(keys.Key(every)) + " is not above 0");
  }
  StateSpaceConfig& state = config.state_space;
  ReadStateSpace(keys, state);
  state.feed_forward = state.norm_before_gate = true;
  if (config.layers < 1 || config.layers > 4096) return;  // FinishConfig says so
  for (int64_t i = 0; i < config.layers; ++i) {
    state.attention.push_back(listed.empty() ? (i + 1) % period == 0
                                             : !listed[static_cast<size_t>(i)]);
  }
}

/// Heads of keys of each layer: those without any have a state instead.
int64_t ReadHybrid(const ArchitectureKeys& keys, const Metadata& metadata, DecoderConfig& config) {
  const std::string_view name = "attention.head_count_kv";
  if (config.state_space.delta) {
    ReadDeltaLayers(keys, metadata, config);
    return keys.OfAllLayers(name).value_or(config.heads);
  }
  const std::vector<int64_t> heads = metadata.Integers(keys.Key(name));
  if (heads.empty()) return config.heads;
  const int64_t most = std::ranges::max(heads);
  const auto layers = std::ssize(heads);
  const bool fits = std::ranges::all_of(heads, [&](int64_t x) { return x == 0 || x == most; });
  if (!fits || (layers != 1 && layers != config.layers)) {
    throw Error(ErrorCode::kUnsupported, "the key " + Quote(keys.Key(name)) +
                                             " should have one number for every layer with "
                                             "attention, and 0 for the others");
  }
  StateSpaceConfig& state = config.state_space;
  state.beside_attention = FamilyOf(config).hybrid_layers;
  if (std::ranges::count(heads, 0) == 0 && !state.beside_attention) return most;
  ReadStateSpace(keys, state);
  state.feed_forward = true;
  if (state.beside_attention) return most;
  if (most == 0) return config.heads;  // there is none
  for (const int64_t x : heads) state.attention.push_back(x > 0);
  return most;
}

void ReadEpsilon(const ArchitectureKeys& keys, DecoderConfig& config) {
  const std::string_view epsilon = config.norm == DecoderConfig::Norm::kRms
                                       ? "attention.layer_norm_rms_epsilon"
                                       : "attention.layer_norm_epsilon";
  config.norm_epsilon = static_cast<float>(keys.Require(keys.Number(epsilon), epsilon));
}

void ReadSizes(const ArchitectureKeys& keys, const Metadata& metadata, DecoderConfig& config) {
  config.context = keys.Require(keys.Integer("context_length"), "context_length");
  config.hidden = keys.Require(keys.Integer("embedding_length"), "embedding_length");
  config.layers = keys.Require(keys.Integer("block_count"), "block_count");
  ReadEpsilon(keys, config);
  const Family& family = FamilyOf(config);
  if (family.state_space) return ReadMixersAlone(keys, config);
  config.heads = keys.Require(keys.OfAllLayers("attention.head_count"), "attention.head_count");
  config.kv_heads = family.hybrid
                        ? ReadHybrid(keys, metadata, config)
                        : keys.OfAllLayers("attention.head_count_kv").value_or(config.heads);
  ReadExperts(keys, metadata, config);
  const auto intermediate = keys.OfAllLayers("feed_forward_length");
  config.intermediate = config.experts.count == 0
                            ? keys.Require(intermediate, "feed_forward_length")
                            : intermediate.value_or(config.experts.intermediate);
  if (config.experts.count > 0 && config.experts.intermediate == 0) {
    config.experts.intermediate = config.intermediate;
  }
  const int64_t whole = config.heads > 0 ? config.hidden / config.heads : 0;
  config.head_dim = keys.Integer("attention.key_length").value_or(whole);
  if (family.deepseek_layout) {
    ReadLatent(keys, config);
  } else if (keys.Integer("attention.value_length").value_or(config.head_dim) != config.head_dim) {
    throw Error(ErrorCode::kUnsupported, "keys and values of different sizes are not supported");
  }
}

void ReadWindows(const ArchitectureKeys& keys, const Metadata& metadata, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  if (!family.gguf_window) return;
  if (config.layers < 1 || config.layers > 4096) return;  // FinishConfig says so
  const bool some =
      family.windows == Family::Windows::kEven || family.windows == Family::Windows::kMost;
  const int64_t window = keys.OfAllLayers("attention.sliding_window").value_or(family.window);
  const std::string_view pattern = "attention.sliding_window_pattern";
  const std::vector<bool> listed = metadata.Bools(keys.Key(pattern));
  if (!listed.empty() && std::ssize(listed) != config.layers) {
    throw Error(ErrorCode::kInvalidModel,
                "the key " + Quote(keys.Key(pattern)) + " does not list every layer");
  }
  const int64_t period = listed.empty() ? keys.Integer(pattern).value_or(family.window_period) : 0;
  for (int64_t i = 0; i < config.layers; ++i) {
    const bool windowed =
        listed.empty() ? !some || IsWindowed(family, i, period) : listed[static_cast<size_t>(i)];
    config.windows.push_back(windowed ? window : 0);
  }
  if (!family.chunked_windows || window > 0) return;
  // Without chunks all layers are alike: each turns, and no query grows.
  config.layer_rotary.assign(static_cast<size_t>(config.layers),
                             DecoderConfig::LayerRotary::kUsual);
  config.temperature = {};
}

void ReadTemperature(const ArchitectureKeys& keys, DecoderConfig& config) {
  TemperatureConfig& temperature = config.temperature;
  if (temperature.length == 0) return;
  temperature.length = keys.Integer("attention.temperature_length").value_or(temperature.length);
  temperature.scale = keys.Float("attention.temperature_scale", temperature.scale);
}

void ReadScales(const ArchitectureKeys& keys, DecoderConfig& config) {
  if (FamilyOf(config).scaled_embeddings) {
    config.embedding_scale = std::sqrt(static_cast<float>(std::max<int64_t>(0, config.hidden)));
  }
  const Family& family = FamilyOf(config);
  if (family.multipliers) {
    config.embedding_scale = keys.Float("embedding_scale", 1);
    config.residual_scale = keys.Float("residual_scale", 1);
  }
  if (family.multipliers || family.logit_scale > 0) {
    const float scale = keys.Float("logit_scale", family.logit_scale > 0 ? family.logit_scale : 1);
    config.logit_scale = family.gguf_logits_divided && scale != 0 ? 1 / scale : scale;
  }
  if (!family.query_scale) return;
  config.attention_softcap = keys.Float("attn_logit_softcapping", family.softcaps ? 50 : 0);
  config.final_softcap = keys.Float("final_logit_softcapping", family.softcaps ? 30 : 0);
  if (config.layers == (family.softcaps ? kLayersOfGemma2_27b : kLayersOfGemma3_27b) &&
      config.heads > 0) {
    // The largest scales queries by another size than that of its heads, and no key says so.
    config.attention_scale = static_cast<float>(
        1 / std::sqrt(static_cast<double>(config.hidden) / static_cast<double>(config.heads)));
  }
}

/// What is Gemma 3n's alone. Files leave out what llama.cpp takes for granted.
void ReadStreams(const ArchitectureKeys& keys, const Metadata& metadata, DecoderConfig& config) {
  if (!FamilyOf(config).altup) return;
  constexpr double kCutoffOf95Percent = 1.6448533535003662;
  constexpr int64_t kCutLayers = 10, kLayersWithKeys = 20;
  AltUpConfig& altup = config.altup;
  altup.streams = keys.Integer("altup.num_inputs").value_or(4);
  if (altup.streams < 1) {
    throw Error(ErrorCode::kInvalidModel,
                "the key " + Quote(keys.Key("altup.num_inputs")) + " is not above 0");
  }
  altup.active = keys.Integer("altup.active_idx").value_or(0);
  altup.per_layer = keys.Integer("embedding_length_per_layer_input").value_or(256);
  config.shared_layers = keys.Integer("attention.shared_kv_layers")
                             .value_or(std::max(config.layers, kLayersWithKeys) - kLayersWithKeys);
  config.attention_scale = 1;
  config.final_softcap = keys.Float("final_logit_softcapping", 30);
  if (config.layers < 1 || config.layers > 4096) return;  // FinishConfig says so
  const std::vector<float> told = metadata.Floats(keys.Key("activation_sparsity_scale"));
  for (int64_t i = 0; i < config.layers; ++i) {
    const double usual =
        i < kCutLayers ? kCutoffOf95Percent : -std::numeric_limits<double>::infinity();
    const auto place = static_cast<size_t>(i);
    const double cutoff = told.empty()          ? usual
                          : place < told.size() ? static_cast<double>(told[place])
                                                : NAN;
    if (std::isnan(cutoff) || cutoff > 40) {
      throw Error(ErrorCode::kInvalidModel, "the key " +
                                                Quote(keys.Key("activation_sparsity_scale")) +
                                                " has no sensible number for every layer");
    }
    config.gate_cutoffs.push_back(static_cast<float>(cutoff));
  }
}

}  // namespace

DecoderConfig ReadConfig(const Metadata& metadata, const RotaryFactors& factors) {
  const auto architecture = metadata.Text("general.architecture");
  if (!architecture) {
    throw Error(ErrorCode::kInvalidModel, "the key 'general.architecture' is missing");
  }
  DecoderConfig config = RequireGgufFamily(*architecture);
  const ArchitectureKeys keys(metadata, *architecture);
  ReadSizes(keys, metadata, config);
  ReadWindows(keys, metadata, config);
  ReadTemperature(keys, config);
  ReadScales(keys, config);
  ReadStreams(keys, metadata, config);
  if (const auto scale = keys.Number("attention.scale"); scale && *scale != 0) {
    config.attention_scale = static_cast<float>(*scale);
  }
  const Family& family = FamilyOf(config);
  if (const auto parallel = metadata.Bool(keys.Key("use_parallel_residual"));
      parallel && family.parallel_block == DecoderConfig::Block::kParallel) {
    config.block = *parallel ? family.parallel_block : DecoderConfig::Block::kSequential;
  }
  // Of models that may do without, an odd key says whether layers turn.
  const bool turns =
      family.rotary_key.empty() || metadata.Bool(keys.Key("rope.scaling.finetuned")).value_or(true);
  config.rotary.interleaved = family.gguf_interleaved;  // rows lie so in any case
  if (turns && !config.learned_positions && !family.state_space) {
    ReadRotary(keys, metadata, factors, config);
  }
  return config;
}

}  // namespace oort::gguf
