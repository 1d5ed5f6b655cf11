// SPDX-License-Identifier: MIT
// Tensors of layers with a state space, cut and shaped as the decoder wants them.
#pragma once

#include <string>
#include <string_view>

#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// Adds what a file's tensor holds, below `prefix` ("model.layers.0."): "mixer.in_proj" (rows of
/// the gate, of what goes through the convolution, and of the steps), and taps of channels and
/// numbers of heads or groups, which become vectors. Of a delta rule, "mixer.in_proj" has for each
/// group its query, its key, values and gates of its heads, and "mixer.beta_step_proj" betas and
/// steps. False for other names, and for shapes that do not fit.
bool AddStateSpaceTensor(const DecoderConfig& config, const std::string& prefix,
                         std::string_view name, const std::string& ending,
                         const PlacedTensor& placed, TensorTable& table);

/// The same of "self_attn.q_proj" where attention has a gate: for each head its query, then its
/// gate.
bool AddGatedQuery(const DecoderConfig& config, const std::string& prefix, std::string_view name,
                   const std::string& ending, const PlacedTensor& placed, TensorTable& table);

}  // namespace oort
