// SPDX-License-Identifier: MIT
// How weights lie in the memory of a GPU.
//
// Weights of 16 bits lie row by row. Weights of 8 and 4 bits lie in the order in which the tensor
// cores take them (mma.m16n8k16, 16 rows by 16 columns, 8 weights for each of the 32 lanes of a
// warp), so that a lane gets its weights by whole loads of 16 bytes and a warp reads 512 bytes in a
// row. A strip is 16 rows, a step 64 columns, a chunk 32: all weights of a chunk share a scale.
// Lane (g, t) = (lane / 4, lane % 4) has rows g and g + 8 of a strip and columns 8t … 8t+7 of a
// chunk. Rows and columns that fill the last strip and step are zeros with a scale of zero.
#pragma once

#include <cstdint>

#include "cuda/host_device.h"

namespace oort::cuda {

inline constexpr int kStripRows = 16;
inline constexpr int kStepColumns = 64;
inline constexpr int kChunkColumns = 32;
inline constexpr int kChunksPerStep = kStepColumns / kChunkColumns;

enum class DeviceFormat : unsigned char { kBf16, kF16, kInt8, kInt4 };

/// A matrix in the memory of a GPU, for kernels. Columns are those of the padded matrix.
struct DeviceWeights {
  DeviceFormat format = DeviceFormat::kBf16;
  const void* data = nullptr;
  const void* scales = nullptr;    ///< pairs (row g, row g + 8): see ScaleIndex
  const void* minimums = nullptr;  ///< like scales, or null
  bool f32_scales = false;         ///< of scales and minimums, else f16
  bool zero_based = false;         ///< of 4 bits: q in 0..15 means 0..15, else -8..7
  int group_shift = -1;            ///< 2^group_shift steps share a scale; -1: a chunk has its own
  int strips = 0;
  int steps = 0;
  int64_t row_elements = 0;  ///< from row to row, of 16-bit formats
};

/// Bytes of a step of a strip in formats of 8 and 4 bits.
OORT_HOST_DEVICE constexpr int64_t StepBytes(DeviceFormat format) {
  return format == DeviceFormat::kInt8 ? 1024 : 512;
}

/// Where the weight (row, column of the strip's step) stands: the byte, and the shift in it.
struct WeightPlace {
  int byte = 0;
  int shift = 0;
};

OORT_HOST_DEVICE constexpr WeightPlace PlaceOf(DeviceFormat format, int row, int column) {
  const int chunk = column / kChunkColumns, t = column % kChunkColumns / 8, k = column % 8;
  const int lane = row % 8 * 4 + t, upper = row / 8;
  if (format == DeviceFormat::kInt8) return {(chunk * 32 + lane) * 16 + upper * 8 + k, 0};
  // Pairs that go into one register are 16 bits apart: one mask takes both.
  const int bit = (k / 2) * 4 + (k % 2) * 16;
  return {lane * 16 + (chunk * 2 + upper) * 4 + bit / 8, bit % 8};
}

/// Groups of a row, and where the pair of scales of lane group g (0..7) stands.
OORT_HOST_DEVICE constexpr int64_t GroupsOf(int64_t steps, int group_shift) {
  return group_shift < 0 ? steps * kChunksPerStep : (steps + (1 << group_shift) - 1) >> group_shift;
}
OORT_HOST_DEVICE constexpr int64_t ScaleIndex(int64_t strip, int64_t step, int g, int chunk,
                                              int64_t steps, int group_shift) {
  if (group_shift < 0) return ((strip * steps + step) * 8 + g) * kChunksPerStep + chunk;
  return (strip * GroupsOf(steps, group_shift) + (step >> group_shift)) * 8 + g;
}

}  // namespace oort::cuda
