// SPDX-License-Identifier: MIT
// Products of many rows with weights of 8 and 4 bits, which become f16 in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layers/quantized_linear/cuda/device_weights.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

/// y = x W^T for weights that fit f16 (MultipliesF16).
struct PackedGemmProduct {
  DeviceWeights weights;
  const void* x = nullptr;  ///< rows of f16, weights.row_elements apart, filled up with zeros
  int rows = 0;
  /// Each split sums up some of the columns, and has results of its own behind those of the one
  /// before: y[i] is (splits, rows, part_rows[i]).
  int splits = 1;
  /// The rows of part i + 1 begin at the next strip behind part i.
  int parts = 1;
  float* y[kMostProducts] = {};
  int part_rows[kMostProducts] = {};
};

/// Of more rows, unpacked weights and cuBLAS are faster.
inline constexpr int64_t kMostPackedGemmRows = 128;

/// Strips of a block, and tiles of eight rows of x.
inline constexpr int kPackedBlockStrips = 16;
constexpr int PackedGemmTiles(int64_t rows) { return rows <= 32 ? 4 : rows <= 64 ? 8 : 16; }

/// In how many splits so many multiprocessors are busy.
constexpr int PackedGemmSplits(int64_t strips, int64_t steps, int64_t rows, int multiprocessors) {
  constexpr int64_t kMost = 8, kLeastSteps = 4;
  const int64_t tile_rows = int64_t{8} * PackedGemmTiles(rows);
  const int64_t blocks =
      (strips + kPackedBlockStrips - 1) / kPackedBlockStrips * ((rows + tile_rows - 1) / tile_rows);
  const int64_t at_once = int64_t{multiprocessors} * (tile_rows > 64 ? 1 : 2);
  const int64_t most = std::clamp<int64_t>(steps / kLeastSteps, 1, kMost);
  return static_cast<int>(std::clamp<int64_t>(at_once / std::max<int64_t>(blocks, 1), 1, most));
}

void RunPackedGemm(const Stream& stream, const PackedGemmProduct& product);

}  // namespace oort::cuda
