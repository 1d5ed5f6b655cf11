// SPDX-License-Identifier: MIT
#include "parser/checkpoint/state_space_tensors.h"

#include "parser/checkpoint/row_parts.h"

namespace oort {
namespace {

/// For each group its query and key, then values and gates of its heads. What goes through the
/// convolution has queries of all groups first, then keys, then values.
bool AddDeltaInputs(const StateSpaceConfig& state, const std::string& prefix,
                    const std::string& ending, const PlacedTensor& placed, TensorTable& table) {
  const int64_t size = state.size, values = state.inner() / state.groups;
  const int64_t stride = 2 * size + 2 * values;
  if (placed.units() != state.groups * stride || placed.rank != 2) return false;
  table.Add(prefix + "mixer.conv_proj" + ending,
            Stacked({EveryRun(placed, 0, size, stride), EveryRun(placed, size, size, stride),
                     EveryRun(placed, 2 * size, values, stride)}));
  table.Add(prefix + "mixer.gate_proj" + ending,
            EveryRun(placed, 2 * size + values, values, stride));
  return true;
}

bool AddDeltaTensor(const StateSpaceConfig& state, const std::string& prefix, std::string_view name,
                    const std::string& ending, const PlacedTensor& placed, TensorTable& table) {
  if (name == "mixer.in_proj") return AddDeltaInputs(state, prefix, ending, placed, table);
  if (name != "mixer.beta_step_proj" || placed.units() != 2 * state.heads) return false;
  const int64_t heads = state.heads / state.groups;  // that share a group
  table.Add(prefix + "mixer.beta_proj" + ending, EveryRun(placed, 0, heads, 2 * heads));
  table.Add(prefix + "mixer.step_proj" + ending, EveryRun(placed, heads, heads, 2 * heads));
  return true;
}

}  // namespace

bool AddGatedQuery(const DecoderConfig& config, const std::string& prefix, std::string_view name,
                   const std::string& ending, const PlacedTensor& placed, TensorTable& table) {
  const int64_t size = config.head_dim;
  if (!config.attention_gate || name != "self_attn.q_proj" ||
      placed.units() != 2 * config.heads * size) {
    return false;
  }
  table.Add(prefix + "self_attn.q_proj" + ending, EveryRun(placed, 0, size, 2 * size));
  table.Add(prefix + "self_attn.gate_proj" + ending, EveryRun(placed, size, size, 2 * size));
  return true;
}

bool AddStateSpaceTensor(const DecoderConfig& config, const std::string& prefix,
                         std::string_view name, const std::string& ending,
                         const PlacedTensor& placed, TensorTable& table) {
  const StateSpaceConfig& state = config.state_space;
  if (state.delta && AddDeltaTensor(state, prefix, name, ending, placed, table)) return true;
  if (name == "mixer.in_proj" && !state.delta) {
    const int64_t inner = state.inner(), channels = state.channels();
    if (placed.units() != inner + channels + state.heads) return false;
    table.Add(prefix + "mixer.gate_proj" + ending, placed.Cut(0, inner));
    table.Add(prefix + "mixer.conv_proj" + ending, placed.Cut(inner, channels));
    table.Add(prefix + "mixer.step_proj" + ending, placed.Cut(inner + channels, state.heads));
    return true;
  }
  if (placed.rank != 2 || placed.packed != nullptr) return false;
  const bool taps = name == "mixer.conv" && placed.rows == state.channels();
  if (!taps && name != "mixer.rate" && name != "mixer.skip" && name != "mixer.norm") return false;
  PlacedTensor vector = placed;
  vector.rank = 1;
  vector.columns = placed.rows * placed.columns;  // in a file of that size this does not overflow
  vector.rows = 1;
  table.Add(prefix + std::string(name) + ending, vector);
  return true;
}

}  // namespace oort
