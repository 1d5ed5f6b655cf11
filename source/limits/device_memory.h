// SPDX-License-Identifier: MIT
// How much memory of a GPU a model takes as Oort lays it out there, from its shape alone.
#pragma once

#include "limits/model_shape.h"

namespace oort::limits {

struct DeviceWeightBits {
  int bits = 16;  ///< 16, 8 or 4
  int table_bits =
      0;  ///< of embeddings and head; 0: as convert makes them, 8 beside 4, else `bits`
  int64_t group = 32;  ///< weights that share a scale of 16 bits
  /// Products of bytes (LanguageModelOptions::activations): weights of layers that have more than 4
  /// bits have 8, and rows one scale of 32 bits.
  bool bytes = false;
};

/// Bytes.
struct DeviceMemory {
  double weights = 0, cache = 0, activations = 0;
  double total() const { return weights + cache + activations; }
};

/// Those of the weights alone. Experts count as if the GPU held them all.
double PredictDeviceWeights(const ModelShape& shape, const DeviceWeightBits& weights);

/// What is kept there while it runs.
struct DeviceRunShape {
  double cache_bits = 16;  ///< of a number of the cache
  double tokens = 0;       ///< of the cache
  double rows = 0;         ///< most tokens of a step
  bool exact = false;      ///< activations stay f32
};

/// What CUDA itself takes is not in it.
DeviceMemory PredictDeviceMemory(const ModelShape& shape, const DeviceWeightBits& weights,
                                 const DeviceRunShape& run);

}  // namespace oort::limits
