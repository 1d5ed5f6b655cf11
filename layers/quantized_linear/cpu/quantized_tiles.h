// SPDX-License-Identifier: MIT
// Products of many rows with quantized weights on tiles (AMX): what kernels are called with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort {

/// Columns that the kernels on tiles multiply at a time: two panels.
inline constexpr int kTileColumns = 2 * kPanelRows;

/// The most steps of k that are dequantized and multiplied at a time, so that they stay in the L1
/// cache.
inline constexpr int64_t kTilePiece = 576;

/// Steps [k0, k) of two panels of quantized weights that become 16-bit numbers: pairs of steps of
/// kTileColumns columns, with zeros up to step `padded`. k0 is a multiple of 32.
struct TileStretch {
  PanelLayout layout;
  int64_t k0 = 0, k = 0, padded = 0;
  const std::byte* panels[2] = {};  ///< the second one null where there is none
  int64_t ahead = 0;  ///< bytes from here to where as much is unpacked next, which is fetched
  uint16_t* to = nullptr;
};

/// Rows times a piece of a stretch of columns.
struct QuantizedTiles {
  int64_t rows = 0;
  /// The first panel's first step, as `pack` left it.
  const void* a = nullptr;
  int64_t a_panel = 0;  ///< bytes from a panel to the next
  TileStretch piece;
  /// rows x kTileColumns sums; rows are whole multiples of 16.
  float* sums = nullptr;
  int64_t stride = 0;
  /// What the sums begin with, as many; may be `sums` itself. Null for zeros.
  const float* start = nullptr;
  int64_t start_stride = 0;
};

/// Rows of x that become those of A: panels of 32 rows, of which those behind the last are zeros,
/// in steps of 32 of k.
struct TileRows {
  const float* x = nullptr;
  int64_t x_stride = 0;
  int64_t begin = 0, end = 0;  ///< of A's rows
  int64_t count = 0;           ///< of x's
  int64_t k = 0, padded = 0;
  void* a = nullptr;
  bool* fits = nullptr;  ///< for each row whether A has it; else A has zeros
};

/// Many rows times quantized weights on tiles (AMX).
struct QuantizedTileKernels {
  void (*begin)();  ///< by each thread before the others, and `end` after them
  void (*end)();
  void (*multiply)(const QuantizedTiles& tiles);
  /// Null where A is what the blocked product of bf16 has.
  void (*pack)(const TileRows& rows) = nullptr;
};
/// Of bf16, and of f16 for weights that fit it; null where the processor has none.
const QuantizedTileKernels* QuantizedTileKernelsFor(Isa isa);
const QuantizedTileKernels* QuantizedF16TileKernelsFor(Isa isa);

}  // namespace oort
