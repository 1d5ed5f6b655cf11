// SPDX-License-Identifier: MIT
// Products of some 32 to 256 rows with weights of 8 and 4 bits on Hopper (compute capability 9.0
// alone), with all that is behind them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layers/quantized_linear/cuda/device_weights.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

/// y = activation(x W^T * factor + bias + addend); gated: activation(gate) * up without an addend,
/// where each strip has eight rows of both.
struct WarpgroupProduct {
  DeviceWeights weights;  ///< packed ones that fit f16 (MultipliesF16)
  const void* x =
      nullptr;  ///< (rows, weights.row_elements) of f16, in the order of tiles (CastRows)
  int rows = 0;
  const float* factors = nullptr;  ///< of rows, or null
  const float* bias = nullptr;     ///< for each row of the weights, or null
  const float* addend = nullptr;   ///< of the first part, or null
  Activation activation = Activation::kNone;
  bool gated = false;
  /// Results (rows, part_rows[i]); the rows of part i + 1 begin at the next strip behind part i.
  int parts = 1;
  float* y[kMostProducts] = {};
  int part_rows[kMostProducts] = {};
};

/// Of fewer rows RunPackedGemm is faster; of more, unpacked weights and cuBLAS.
inline constexpr int64_t kLeastWarpgroupRows = 25, kMostWarpgroupRows = 256;

/// Whether this device has the kernel.
bool HasWarpgroupGemm(int device);

/// In how many pieces the sums over columns are computed: so many that all multiprocessors are
/// busy. It does not depend on the rows of x, and so the bits of a row do not depend on how many
/// others there are.
constexpr int WarpgroupSplits(int64_t strips, int64_t steps, int multiprocessors) {
  constexpr int64_t kTileStrips = 12, kLeastSteps = 4, kMost = 4;
  const int64_t tiles = (strips + kTileStrips - 1) / kTileStrips;
  int64_t splits = 1;
  while (splits < kMost && steps >= 2 * splits * kLeastSteps &&
         tiles * splits * 2 <= multiprocessors) {
    splits *= 2;
  }
  return static_cast<int>(splits);
}

/// `x` may be what the kernel in front of it still writes.
void RunWarpgroupGemm(const Stream& stream, const WarpgroupProduct& product);

}  // namespace oort::cuda
