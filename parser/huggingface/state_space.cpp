// SPDX-License-Identifier: MIT
#include "parser/huggingface/state_space.h"

#include <algorithm>
#include <array>
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

void ReadHybrid(const json::Object& file, DecoderConfig& config) {
  StateSpaceConfig& state = config.state_space;
  std::vector<bool> attention = AttentionLayers(file, config.layers);
  // Members of such families that have attention in all layers are like any other model.
  if (std::ranges::count(attention, false) == 0) return;
  state.feed_forward = true;
  if (std::ranges::count(attention, true) > 0) state.attention = std::move(attention);
  state.heads = file.Integer("mamba_n_heads").value_or(128);
  if (state.heads < 1) file.ThrowWrongType("mamba_n_heads", "a number above 0");
  const json::Json* const size = file.Find("mamba_d_head");  // or "auto"
  const bool is_told = size != nullptr && size->is_number_integer();
  state.head_dim =
      is_told
          ? size->get<int64_t>()
          : CheckedMultiply(file.Integer("mamba_expand").value_or(2), config.hidden) / state.heads;
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
