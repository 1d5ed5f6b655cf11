// SPDX-License-Identifier: MIT
// Products of several rows with quantized weights on units that sum products of bytes (SDOT): a
// panel is unpacked to bytes once, and then meets all rows in tiles of a few rows and columns. The
// result of a row is what the kernels of one row give, bit by bit, where these multiply the same
// bytes of x.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort {

/// A panel of weights as bytes, 16 rows of the weight.
struct BytePanel {
  const int8_t* lines = nullptr;    ///< (k / 4, row, 4 steps), as the unit likes them
  const float* scales = nullptr;    ///< (group, row)
  const float* minimums = nullptr;  ///< likewise; null where there are none

  /// Bytes that a panel of `k` steps takes; a multiple of 64.
  static int64_t Bytes(const PanelLayout& layout, int64_t k) {
    const int64_t numbers = k / layout.group * kPanelRows * static_cast<int64_t>(sizeof(float));
    return (k * kPanelRows + numbers * (layout.has_minimum ? 2 : 1) + 63) / 64 * 64;
  }
};

/// Rows of x times a panel: y[row][i], 16 each.
struct ByteTiles {
  PanelLayout layout;
  int64_t k = 0;
  BytePanel panel;
  ByteRows x;  ///< in blocks; where of_8_bits is null, weights of 8 bits take one byte of x
  int rows = 0;
  float* y = nullptr;
  int64_t y_stride = kPanelRows;
};

struct ByteTileKernels {
  /// Writes to `memory`, of BytePanel::Bytes.
  BytePanel (*unpack)(const PanelLayout& layout, int64_t k, const std::byte* panel,
                      std::byte* memory);
  void (*multiply)(const ByteTiles& tiles);
  int fewest_rows = 1;     ///< from so many rows on they are faster than GEMVs
  bool two_bytes = false;  ///< whether weights of 8 bits may take two bytes of x
};
/// Null where the processor has no such units, or multiplies f32 faster.
const ByteTileKernels* ByteTileKernelsFor(Isa isa);

}  // namespace oort
