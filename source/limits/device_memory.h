// SPDX-License-Identifier: MIT
// How much memory of a GPU a model takes as Oort lays it out there, from its shape alone.
#pragma once

#include "limits/model_shape.h"

namespace oort::limits {

/// Whether a model of so many bytes of weights is exact on a GPU, with a cache of f32, where
/// nothing else was asked for: it waits for kernels to start more than for their products.
constexpr bool IsExactOnGpu(double weight_bytes) { return weight_bytes < 512e6; }

struct DeviceWeightBits {
  int bits = 16;  ///< 16, 8 or 4
  int table_bits =
      0;  ///< of embeddings and head; 0: as convert makes them, 8 beside 4, else `bits`
  int64_t group = 32;  ///< weights that share a scale of 16 bits
};

/// Bytes.
struct DeviceMemory {
  double weights = 0, cache = 0, activations = 0;
  double total() const { return weights + cache + activations; }
};

/// For a cache of `tokens` tokens of `cache_bits` a number and steps of up to `rows` tokens. What
/// CUDA itself takes is not in it. Throws kUnsupported for a mixture of experts.
DeviceMemory PredictDeviceMemory(const ModelShape& shape, const DeviceWeightBits& weights,
                                 double cache_bits, double tokens, double rows);

}  // namespace oort::limits
