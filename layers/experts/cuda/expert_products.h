// SPDX-License-Identifier: MIT
// Products of routed rows with the weights of their experts.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "layers/experts/cuda/route_experts.h"
#include "layers/quantized_linear/cuda/device_weights.h"

namespace oort::cuda {

/// Up to so many tokens the results of a row are the same whatever the others are.
inline constexpr int64_t kFewTokens = 256;

struct ExpertProduct {
  /// Those of all experts below each other, `strips` each. Of gate and up, every strip has eight
  /// rows of either.
  DeviceWeights weights;
  int strips = 0;
  const void* x = nullptr;  ///< rows of split_rows.h
  int planes = 2;
  int64_t tokens = 0;  ///< of the step
  int used = 0, held = 0;
  RoutedPairs pairs;
  int rows = 0;  ///< results of an expert: columns of its down weights, or all its outputs

  /// Gate and up: x is (tokens), `hidden` gets split rows (pairs in their order) of
  /// activation(gate) * up, or with a limit gate * sigmoid(1.702 gate) * (up + 1) of what is held
  /// to it. Otherwise x is such rows, and y gets (pairs, rows).
  bool gated = false;
  const float* bias = nullptr;     ///< (held, rows), or null
  const float* up_bias = nullptr;  ///< likewise; of gated products `bias` is that of the gate
  bool scales_inputs = false;      ///< x is meant times the weight of the pair
  float limit = 0;
  Activation activation = Activation::kNone;
  void* hidden = nullptr;
  float* y = nullptr;
};

void RunExperts(const Stream& stream, const ExpertProduct& product);

}  // namespace oort::cuda
