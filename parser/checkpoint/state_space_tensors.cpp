// SPDX-License-Identifier: MIT
#include "parser/checkpoint/state_space_tensors.h"

#include "parser/checkpoint/row_parts.h"

namespace oort {

bool AddStateSpaceTensor(const DecoderConfig& config, const std::string& prefix,
                         std::string_view name, const std::string& ending,
                         const PlacedTensor& placed, TensorTable& table) {
  const StateSpaceConfig& state = config.state_space;
  if (name == "mixer.in_proj") {
    const int64_t units = placed.rank == 1 ? placed.columns : placed.rows;
    const int64_t inner = state.inner(), channels = state.channels();
    if (units != inner + channels + state.heads) return false;
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
