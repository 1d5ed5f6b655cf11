// SPDX-License-Identifier: MIT
#include "parser/huggingface/state_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/problems.h"
#include "oort/error.h"
#include "parser/checkpoint/families.h"

namespace oort::huggingface {
namespace {

/// One of two numbers; one that JSON cannot say is no limit, however it is written.
double StepLimit(const json::Json& limits, size_t which, double otherwise) {
  if (!limits.is_array() || limits.size() != 2) return otherwise;
  const json::Json& limit = limits[which];
  return limit.is_number() ? limit.get<double>() : otherwise;
}

/// By the names of their kinds, old and new ones.
std::vector<bool> LayersByName(const json::Object& file, std::string_view key,
                               const json::Json& names, size_t layers) {
  static constexpr std::array<std::string_view, 2> kAttention = {"attention", "full_attention"};
  static constexpr std::array<std::string_view, 2> kState = {"mamba", "linear_attention"};
  if (!names.is_array() || names.size() != layers) {
    file.ThrowWrongType(key, "a list of as many strings as there are layers");
  }
  std::vector<bool> attention;
  for (const json::Json& item : names) {
    const std::string name = item.is_string() ? item.get<std::string>() : "";
    attention.push_back(std::ranges::count(kAttention, name) > 0);
    if (!attention.back() && std::ranges::count(kState, name) == 0) {
      file.ThrowWrongType(key, "mamba or attention for every layer");
    }
  }
  return attention;
}

/// Layers of a hybrid that have attention.
std::vector<bool> AttentionLayers(const json::Object& file, int64_t layers) {
  std::vector<bool> attention(static_cast<size_t>(std::clamp<int64_t>(layers, 0, 4096)), false);
  for (const std::string_view key : {"layer_types", "layers_block_type"}) {
    const json::Json* const names = file.Find(key);
    if (names != nullptr) return LayersByName(file, key, *names, attention.size());
  }
  constexpr std::string_view kIndices = "attn_layer_indices";
  const json::Json* const indices = file.Find(kIndices);
  if (indices == nullptr) return attention;
  if (!indices->is_array()) file.ThrowWrongType(kIndices, "a list of layers");
  for (const json::Json& item : *indices) {
    const int64_t layer = item.is_number_integer() ? item.get<int64_t>() : -1;
    if (layer < 0 || layer >= std::ssize(attention)) {
      file.ThrowWrongType(kIndices, "a list of layers");
    }
    attention.at(static_cast<size_t>(layer)) = true;
  }
  return attention;
}

float FactorOf(const json::Object& file, std::string_view key) {
  return static_cast<float>(file.Number(key).value_or(1));
}

/// As many as are wanted; 1 where the file has none.
std::vector<float> FactorsOf(const json::Object& file, std::string_view key, size_t count) {
  std::vector<float> numbers = file.Floats(key);
  if (numbers.empty()) numbers.assign(count, 1.0F);
  if (numbers.size() != count) {
    file.ThrowWrongType(key, "a list of " + std::to_string(count) + " numbers");
  }
  return numbers;
}

/// Of layers with both. A multiplier of an input is one of what products make of it, unless a bias
/// is added to that.
void ReadLayerMultipliers(const json::Object& file, DecoderConfig& config) {
  StateSpaceConfig& state = config.state_space;
  const float attention_in = FactorOf(file, "attention_in_multiplier");
  const float state_in = FactorOf(file, "ssm_in_multiplier");
  if ((attention_in != 1 && file.Bool("attention_bias").value_or(false)) ||
      (state_in != 1 && file.Bool("mamba_proj_bias").value_or(false))) {
    throw Error(ErrorCode::kUnsupported,
                file.what() + ": a multiplier of inputs whose products have a bias");
  }
  config.embedding_scale = FactorOf(file, "embedding_multiplier");
  config.logit_scale = FactorOf(file, "lm_head_multiplier");
  const float keys = FactorOf(file, "key_multiplier");
  config.attention_scale = attention_in * attention_in * keys /
                           std::sqrt(static_cast<float>(std::max<int64_t>(config.head_dim, 1)));
  config.scales.attention = attention_in * FactorOf(file, "attention_out_multiplier");
  config.scales.state = FactorOf(file, "ssm_out_multiplier");
  const std::vector<float> mlp = FactorsOf(file, "mlp_multipliers", 2);
  config.scales.gate = mlp[0];
  config.scales.feed_forward = mlp[1];
  const std::vector<float> parts = FactorsOf(file, "ssm_multipliers", 5);
  state.gate_scale = state_in * parts[0];
  state.x_scale = state_in * parts[1];
  state.b_scale = state_in * parts[2];
  state.c_scale = state_in * parts[3];
  state.step_scale = state_in * parts[4];
  state.beside_attention = true;
  state.norm = file.Bool("mamba_rms_norm").value_or(false);
  state.norm_before_gate = file.Bool("mamba_norm_before_gate").value_or(true);
}

/// Of Qwen3-Next: layers that have attention are listed, or every so manieth.
void ReadDelta(const json::Object& file, DecoderConfig& config) {
  StateSpaceConfig& state = config.state_space;
  if (file.Find("layer_types") != nullptr) {
    state.attention = AttentionLayers(file, config.layers);
  } else {
    constexpr std::string_view kEvery = "full_attention_interval";
    const int64_t period = file.Integer(kEvery).value_or(FamilyOf(config).state_period);
    if (period < 1) file.ThrowWrongType(kEvery, "a number above 0");
    const int64_t layers = std::clamp<int64_t>(config.layers, 0, 4096);
    for (int64_t i = 0; i < layers; ++i) state.attention.push_back((i + 1) % period == 0);
  }
  state.feed_forward = state.norm_before_gate = true;
  state.heads = file.Integer("linear_num_value_heads").value_or(32);
  if (state.heads < 1) file.ThrowWrongType("linear_num_value_heads", "a number above 0");
  state.head_dim = file.Integer("linear_value_head_dim").value_or(128);
  state.groups = file.Integer("linear_num_key_heads").value_or(16);
  state.size = file.Integer("linear_key_head_dim").value_or(128);
  state.taps = file.Integer("linear_conv_kernel_dim").value_or(4);
}

void ReadHybrid(const json::Object& file, DecoderConfig& config) {
  if (config.state_space.delta) return ReadDelta(file, config);
  StateSpaceConfig& state = config.state_space;
  state.feed_forward = true;
  if (FamilyOf(config).hybrid_layers) {
    ReadLayerMultipliers(file, config);
  } else {
    std::vector<bool> attention = AttentionLayers(file, config.layers);
    // Members of such families that have attention in all layers are like any other model.
    if (std::ranges::count(attention, false) == 0) return;
    if (std::ranges::count(attention, true) > 0) state.attention = std::move(attention);
  }
  state.heads = file.Integer("mamba_n_heads").value_or(128);
  if (state.heads < 1) file.ThrowWrongType("mamba_n_heads", "a number above 0");
  const json::Json* const size = file.Find("mamba_d_head");  // or "auto"
  const bool is_told = size != nullptr && size->is_number_integer();
  if (is_told) {
    state.head_dim = size->get<int64_t>();
  } else {
    const auto inner = file.Integer("mamba_d_ssm");
    const int64_t expand = file.Integer("mamba_expand").value_or(2);
    state.head_dim = (inner ? *inner : CheckedMultiply(expand, config.hidden)) / state.heads;
  }
  state.size = file.Integer("mamba_d_state").value_or(256);
  state.groups = file.Integer("mamba_n_groups").value_or(1);
  state.taps = file.Integer("mamba_d_conv").value_or(4);
}

}  // namespace

void ReadStateSpace(const json::Object& file, DecoderConfig& config) {
  const Family& family = FamilyOf(config);
  StateSpaceConfig& state = config.state_space;
  if (family.hybrid) ReadHybrid(file, config);
  if (family.state_space) {
    state.heads = config.heads;
    state.head_dim = config.head_dim;
    state.size = file.RequireInteger("state_size");
    state.groups = file.Integer("n_groups").value_or(1);
    state.taps = file.Integer("conv_kernel").value_or(4);
  }
  if (!family.hybrid && !family.state_space) return;
  if (config.activation != Activation::kSilu) {
    throw Error(ErrorCode::kUnsupported, file.what() + ": a hidden_act other than silu");
  }
  if (const json::Json* const limits = file.Find("time_step_limit")) {
    state.least_step = static_cast<float>(StepLimit(*limits, 0, 0));
    state.most_step = static_cast<float>(StepLimit(*limits, 1, 0));
  }
}

}  // namespace oort::huggingface
