// SPDX-License-Identifier: MIT
// A tile of C that is finished in registers: sums begin with the bias or with what C holds, and the
// steps of k are added in their order. Tiles at an edge do the same, so that the bits of an element
// do not depend on where a matrix is cut. Only for *.simd.cpp.
#pragma once

#include "cpu/activation_epilogue.h"
#include "cpu/gemm.h"

namespace oort::OORT_ISA {

/// c = clamped(init + a b + addend). Row r begins with the values at init + r * init_stride: a bias
/// for all rows where the stride is 0, or what C holds already.
struct WholeTile {
  int64_t k = 0;
  int rows = 0, a_width = 0;
  int vectors = 0;  ///< that hold the columns which are wanted
  const void *a = nullptr, *b = nullptr;
  const float* init = nullptr;
  int64_t init_stride = 0;
  const float* addend = nullptr;  ///< may be null
  int64_t addend_stride = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  bool clamp = false;
  float low = 0, high = 0;
  const void* soon = nullptr;  ///< never null: a line is fetched there at each step of k
  int64_t soon_step = 0;       ///< bytes
  // Tiles one below another, for kernels that take several: panels of A are `a_step` bytes apart.
  int64_t count = 1, a_step = 0;
};

/// Most tiles are whole: their sums never leave the registers before they are complete. They have
/// at least `least` rows.
template <int least, int columns>
inline bool IsWhole(const GemmTile& tile) {
  return tile.rows >= least && tile.columns == columns && tile.k > 0 &&
         (tile.accumulate || tile.row_bias == nullptr);
}

/// Whether the activation, if any, is cheap enough to be applied in registers.
inline bool IsDirect(const ActivationSpec& activation) {
  return activation.kind == Activation::kNone || activation.kind == Activation::kRelu ||
         activation.kind == Activation::kClamp;
}

/// The tile with its activation where that is direct; else it goes to `sums`.
template <int most, int columns>
inline WholeTile WholeTileOf(const GemmTile& tile, float* sums) {
  alignas(64) static constexpr float kZeros[columns] = {};
  const ActivationSpec& activation = tile.activation;
  const bool relu = activation.kind == Activation::kRelu;
  const bool clamp = relu || activation.kind == Activation::kClamp;
  const bool direct = IsDirect(activation);
  const bool has_bias = !tile.accumulate && tile.column_bias != nullptr;
  WholeTile whole;
  whole.k = tile.k;
  whole.rows = tile.rows;
  whole.vectors = (tile.columns + Vec::kWidth - 1) / Vec::kWidth;
  whole.a_width = tile.a_width == 0 ? most : tile.a_width;
  whole.a = tile.a;
  whole.b = tile.b;
  whole.c = direct ? tile.c : sums;
  whole.ldc = direct ? tile.ldc : columns;
  if (tile.accumulate) {
    whole.init = tile.c;
    whole.init_stride = tile.ldc;
  } else {
    whole.init = has_bias ? tile.column_bias : kZeros;
  }
  whole.addend = tile.addend;
  whole.addend_stride = tile.addend_stride;
  whole.clamp = clamp;
  whole.low = relu ? 0.0f : activation.a;
  whole.high = relu ? __builtin_inff() : activation.b;
  whole.soon = tile.soon != nullptr ? tile.soon : tile.a;
  whole.soon_step = tile.k == 0 ? 0 : (tile.soon_bytes + tile.k - 1) / tile.k;
  return whole;
}

/// Computes `count` tiles side by side, of at most `most` rows, whose panels of B are `b_step`
/// bytes apart. Cheap activations are applied in registers, the others to a buffer in the L1 cache.
/// The sums are the same in both cases, so that fusing an activation changes no bit.
template <int most, int columns, typename Compute>
inline void TilesInRegisters(const GemmTile& tile, int64_t count, int64_t b_step,
                             const Compute& compute) {
  alignas(64) float sums[most * columns];
  const ActivationSpec& activation = tile.activation;
  const bool direct = IsDirect(activation);
  const bool moves = tile.accumulate || tile.column_bias != nullptr;  // what sums begin with
  WholeTile whole = WholeTileOf<most, columns>(tile, sums);
  float* c = tile.c;
  for (;; c += columns) {
    compute(whole);
    if (!direct) {
      ActivateBlock<columns / Vec::kWidth>(activation, {tile.rows, columns, c, tile.ldc},
                                           ActivationSource{sums, columns});
    }
    if (--count == 0) return;
    whole.b = static_cast<const char*>(whole.b) + b_step;
    if (direct) whole.c += columns;
    if (moves) whole.init += columns;
    if (whole.addend != nullptr) whole.addend += columns;
  }
}

/// Rows of `columns` floats, which may end within a vector.
struct RaggedRows {
  int rows, columns;

  /// Whole vectors are written where `to` has room for them.
  template <bool whole>
  void Copy(const float* from, int64_t from_stride, float* to, int64_t to_stride) const {
    for (int r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
      int i = 0;
      for (; i + Vec::kWidth <= columns; i += Vec::kWidth) Vec::Load(from + i).Store(to + i);
      if (i == columns) continue;
      const Vec last = Vec::LoadPartial(from + i, columns - i);
      if constexpr (whole) {
        last.Store(to + i);
      } else {
        last.StorePartial(to + i, columns - i);
      }
    }
  }
};

/// Computes a tile that lacks columns or has a bias for each row. Only rows that end within a
/// vector go through buffers, which the L1 cache holds.
template <int most, int columns, typename Compute>
inline void EdgeInRegisters(const GemmTile& tile, const Compute& compute) {
  alignas(64) float first[most * columns], last[most * columns], sums[most * columns];
  const ActivationSpec& activation = tile.activation;
  const bool ragged = tile.columns % Vec::kWidth != 0;
  const RaggedRows rows{tile.rows, tile.columns};
  WholeTile whole = WholeTileOf<most, columns>(tile, sums);
  if (!tile.accumulate && tile.row_bias != nullptr) {
    for (int r = 0; r < tile.rows; ++r) {
      const Vec bias = Vec(tile.row_bias[r]);
      for (int v = 0; v < whole.vectors; ++v) bias.Store(first + r * columns + v * Vec::kWidth);
    }
    whole.init = first;
    whole.init_stride = columns;
  } else if (ragged && tile.accumulate) {
    rows.Copy<true>(tile.c, tile.ldc, first, columns);
    whole.init = first;
    whole.init_stride = columns;
  } else if (ragged && tile.column_bias != nullptr) {
    RaggedRows{1, tile.columns}.Copy<true>(tile.column_bias, 0, first, columns);
    whole.init = first;
  }
  if (ragged && tile.addend != nullptr) {
    rows.Copy<true>(tile.addend, tile.addend_stride, last, columns);
    whole.addend = last;
    whole.addend_stride = columns;
  }
  if (ragged) {
    whole.c = sums;
    whole.ldc = columns;
  }
  compute(whole);
  if (!IsDirect(activation)) {
    ActivateBlock<columns / Vec::kWidth>(activation, {tile.rows, tile.columns, tile.c, tile.ldc},
                                         ActivationSource{sums, columns});
  } else if (ragged) {
    rows.Copy<false>(sums, columns, tile.c, tile.ldc);
  }
}

}  // namespace oort::OORT_ISA
