// SPDX-License-Identifier: MIT
// Pixels times panels of filters in f16 on NEON. Only for direct_conv.lanes.cpp.
#pragma once

#include "cpu/lanes.h"
#include "cpu/unroll.h"
#include "layers/convolution/direct/direct_conv_kernels.h"
#include "layers/convolution/direct/f16_rows_neon.h"
#include "layers/convolution/direct/panel_parts.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kTileRows = kHalfRows, kTileColumns = kHalfColumns, kTileGranule = HalfVec::kWidth;

using HalfBlock = RowBlockOf<Half>;

/// The activations that tiles apply in registers. Others are applied to what the tiles wrote.
class HalfLimits {
 public:
  explicit HalfLimits(const ActivationSpec& spec) : kind_(spec.kind) {
    const bool clamp = kind_ == Activation::kClamp, hardswish = kind_ == Activation::kHardswish;
    HalfVec(clamp ? spec.a : 0.0f).Store(at_);
    HalfVec(clamp ? spec.b : hardswish ? 1.0f : __builtin_inff()).Store(at_ + HalfVec::kWidth);
    HalfVec(1.0f / 6).Store(at_ + 2 * HalfVec::kWidth);
  }
  bool IsAll() const { return HalfTileSupports(kind_); }
  void Set(HalfTile& tile) const {
    tile.activation = IsAll() ? kind_ : Activation::kNone;
    tile.limits = at_;
  }

 private:
  Activation kind_;
  alignas(16) Half at_[3 * HalfVec::kWidth];
};

/// All pixels of a block times a part of one panel, of which `columns` columns are wanted.
template <int vectors>
void MultiplyPixels(const HalfBlock& block, HalfTile tile, int columns,
                    const ActivationSpec& activation) {
  const HalfLimits limits(activation);
  limits.Set(tile);
  Half* const out = tile.out;
  int64_t pixel = 0;
  const auto advance = [&](int64_t tiles) {
    pixel += tiles * kHalfRows;
    tile.rows += tiles * block.taps * kHalfRows;
    tile.out += tiles * kHalfRows * tile.stride;
    if (tile.addend != nullptr) tile.addend += tiles * kHalfRows * tile.stride;
  };
  const int64_t whole = block.pixels / kHalfRows;
  const bool inner = tile.depth % HalfVec::kWidth == 0 && tile.depth * tile.taps > 0;
  if (inner && whole > 0 && columns == vectors * HalfVec::kWidth) {
    MultiplyHalfTiles<vectors>(tile, whole, (block.taps - tile.taps) * kHalfRows);
    advance(whole);
  }
  while (pixel < block.pixels) {
    const int64_t left = block.pixels - pixel;
    MultiplyHalfRows<vectors>(tile, static_cast<int>(left < kHalfRows ? left : kHalfRows), columns);
    advance(1);
  }
  if (!limits.IsAll()) ActivateRows(activation, out, tile.stride, block.pixels, columns);
}

/// All pixels times the panel that starts at `column`.
template <int vectors>
void MultiplyHalfPanel(const HalfBlock& block, int64_t column, int columns) {
  ForPartsOfPanel<HalfTile>(block, column, vectors * HalfVec::kWidth, kHalfRows,
                            CutPanel(block, kMostSteps, HalfVec::kWidth), kHalfZeros,
                            [&](const HalfTile& tile, bool last) {
                              MultiplyPixels<vectors>(block, tile, columns,
                                                      last ? block.activation : ActivationSpec());
                            });
}

void MultiplyBlock(const HalfBlock& block) {
  constexpr int kStep = HalfVec::kWidth;
  for (int64_t column = 0; column < block.columns; column += kHalfColumns) {
    const int64_t left = block.columns - column;
    const int used = static_cast<int>(left < kHalfColumns ? left : kHalfColumns);
    Unroll<kHalfVectors>([&](auto v) {
      if ((used + kStep - 1) / kStep == v + 1) MultiplyHalfPanel<v + 1>(block, column, used);
    });
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
