// SPDX-License-Identifier: MIT
// Products of a few rows with a matrix of weights, at the speed of the memory.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "layers/quantized_linear/cuda/device_weights.h"

namespace oort::cuda {

class Stream;

/// Most rows of x of one launch, and of one whose x has few digits.
inline constexpr int kGemvRows = 16, kFewDigitRows = 8;
inline constexpr int kMostProducts = 3;

/// The activations of these products and of those in dequantize.h.
constexpr bool SupportsActivation(Activation activation) {
  switch (activation) {
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kSilu:
    case Activation::kGelu:
    case Activation::kGeluTanh: return true;
    default: return false;
  }
}

/// y = activation(norm(x) W^T + bias + addend); gated: activation(gate) * up without an addend,
/// where each strip has eight rows of both.
struct GemvProduct {
  DeviceWeights weights;
  int rows = 0;     ///< of x
  int columns = 0;  ///< of x: the padding of the weights is not read
  /// Packed weights meet x in 15 bits, of which 64 neighbours share the exponent, instead of 31.
  bool few_digits = false;
  const float* x = nullptr;
  const float* gain = nullptr;  ///< of an RMS norm of x before the product, or null
  float epsilon = 0;
  const float* bias = nullptr;    ///< for each row of the packed matrix, or null
  const float* addend = nullptr;  ///< of the first part
  Activation activation = Activation::kNone;
  bool gated = false;
  /// Results (rows, part_rows[i]); the rows of part i + 1 begin at the next strip behind part i.
  int parts = 1;
  float* y[kMostProducts] = {};
  int part_rows[kMostProducts] = {};
};

/// Bytes of shared memory that the launch takes at least; more than the device has means too many
/// rows.
int64_t GemvShared(const GemvProduct& product);
/// What a block of the device can have.
int64_t MostSharedBytes(int device);

/// `overlap`: the kernel before may still run while this one fetches its first weights.
void RunGemv(const Stream& stream, const GemvProduct& product, bool overlap);

}  // namespace oort::cuda
