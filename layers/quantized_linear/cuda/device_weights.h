// SPDX-License-Identifier: MIT
// How weights lie in the memory of a GPU.
//
// Weights of 16 bits lie row by row. Weights of 8 and 4 bits lie in the order in which the tensor
// cores take them (mma.m16n8k16, 16 rows by 16 columns, 8 weights for each of the 32 lanes of a
// warp). A strip is 16 rows, a step 64 columns, a chunk 32: all weights of a chunk share a scale.
// A strip's step is one record: the weights, 16 bytes for each lane (and 16 more, of 8 bits, for
// the second chunk), then the scales, then the minimums. The records of a strip follow each other,
// and so do the strips. Lane (g, t) = (lane / 4, lane % 4) has rows g and g + 8 of a strip and
// columns 8t … 8t+7 of a chunk; scales are pairs for both rows. Rows and columns that fill the last
// strip and step are zeros with a scale of zero.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace oort::cuda {

inline constexpr int kStripRows = 16;
inline constexpr int kStepColumns = 64;
inline constexpr int kChunkColumns = 32;
inline constexpr int kChunksPerStep = kStepColumns / kChunkColumns;

enum class DeviceFormat : unsigned char { kBf16, kF16, kInt8, kInt4 };

/// A matrix in the memory of a GPU, for kernels.
struct DeviceWeights {
  DeviceFormat format = DeviceFormat::kBf16;
  const void* data = nullptr;
  int strips = 0;
  int steps = 0;
  int64_t row_elements = 0;  ///< from row to row, of 16-bit formats
  // Of 8 and 4 bits:
  bool f32_scales = false;   ///< of scales and minimums, else f16
  bool has_minimum = false;  ///< weight = scale * q + minimum
  bool zero_based = false;   ///< of 4 bits: q in 0..15 means 0..15, else -8..7
  bool chunk_scales = true;  ///< each chunk has scales of its own; else a step has one for both
  bool fits_f16 = false;     ///< f16 holds all weights well: no need for bf16's range
  float unit = 1;            ///< a power of two; in units of it the largest weight is below 2^15
};

OORT_HOST_DEVICE constexpr bool IsPacked(DeviceFormat format) {
  return format == DeviceFormat::kInt8 || format == DeviceFormat::kInt4;
}
/// Whether products of many rows are of f16: three bits more than bf16 has.
OORT_HOST_DEVICE constexpr bool MultipliesF16(const DeviceWeights& w) {
  return w.format == DeviceFormat::kF16 || (IsPacked(w.format) && w.fits_f16);
}

/// Bytes of the weights of a record.
OORT_HOST_DEVICE constexpr int WeightBytes(DeviceFormat format) {
  return format == DeviceFormat::kInt8 ? 1024 : 512;
}
/// Bytes of its scales; its minimums have as many.
OORT_HOST_DEVICE constexpr int ScaleBytes(const DeviceWeights& w) {
  return 8 * (w.chunk_scales ? kChunksPerStep : 1) * 2 * (w.f32_scales ? 4 : 2);
}
OORT_HOST_DEVICE constexpr int RecordBytes(const DeviceWeights& w) {
  return WeightBytes(w.format) + ScaleBytes(w) * (w.has_minimum ? 2 : 1);
}

/// Where the weight (row of the strip, column of the step) stands in a record.
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

/// Which of a record's scales belongs to a row and a chunk.
OORT_HOST_DEVICE constexpr int ScalePlace(const DeviceWeights& w, int row, int chunk) {
  const int pair = w.chunk_scales ? row % 8 * kChunksPerStep + chunk : row % 8;
  return pair * 2 + row / 8;
}

}  // namespace oort::cuda
