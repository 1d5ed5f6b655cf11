// SPDX-License-Identifier: MIT
// What the bias of a product for keys gives all keys of a model in common.
#pragma once

#include "oort/tensor.h"
#include "parser/checkpoint/decoder_config.h"

namespace oort {

/// The mean over the first few thousand positions of what `bias`, of heads of `head_dim` elements,
/// becomes as it turns. The largest biases are in pairs that turn slowly (of Qwen2, up to hundreds
/// of times the rest of a key), of which nearly all is in it; of pairs that turn fast, nothing.
Tensor KeyCentre(const Tensor& bias, int64_t head_dim, const RotaryConfig& rotary);

}  // namespace oort
