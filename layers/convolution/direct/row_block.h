// SPDX-License-Identifier: MIT
// A block of pixels times panels of filters, in the tiles of row_tile.h. Only for
// direct_conv.lanes.cpp.
#pragma once

#include "cpu/lanes.h"
#include "layers/convolution/direct/panel_parts.h"
#include "layers/convolution/direct/row_tile.h"

namespace oort::OORT_ISA {
namespace {

using Block = RowBlockOf<Element>;

/// The bytes of a panel that stay in the L1 cache beside the rows. Panels of AVX2 are so narrow
/// that none is cut.
#if defined(OORT_ISA_avx512)
constexpr int64_t kPanelBytes = 32 * 1024;
#else
constexpr int64_t kPanelBytes = kInnerTiles ? 40 * 1024 : 256 * 1024;
#endif

/// Sets the limits of cheap activations, which the tile applies. Returns whether this is one.
bool SetLimits(RowTile& tile, const ActivationSpec& activation) {
  const bool relu = activation.kind == Activation::kRelu;
  tile.clamp = relu || activation.kind == Activation::kClamp;
  tile.low = relu ? 0.0f : activation.a;
  tile.high = relu ? __builtin_inff() : activation.b;
  return tile.clamp;
}

void CopyColumns(const Element* from, Element* to, int count) {
  int i = 0;
  for (; i + Lanes::kWidth <= count; i += Lanes::kWidth) Lanes::Load(from + i).Store(to + i);
  if (i < count) Lanes::LoadPartial(from + i, count - i).StorePartial(to + i, count - i);
}

/// A block times a part of one panel.
struct Part {
  const Block& block;
  RowTile tile;  // at the block's first pixel
  int columns;   // that are wanted
  ActivationSpec activation;

  RowTile At(int64_t pixel) const {
    RowTile moved = tile;
    moved.rows += pixel / kTileRows * block.taps * kTileRows;
    moved.out += pixel * block.stride;
    if (moved.addend != nullptr) moved.addend += pixel * block.stride;
    return moved;
  }
};

/// `count` tiles one after another.
template <int vectors>
void Compute(const Part& part, RowTile tile, int64_t count) {
  const int64_t pointers = part.block.taps * kTileRows;
  if constexpr (vectors == kTileVectors) {
    const int64_t skip = pointers - tile.taps * kTileRows;
    if (kInnerTiles && tile.taps * tile.depth > 0) return ComputeTiles(tile, count, skip);
  }
  // What lies behind this part of the panel is needed next, so each line of its rows is prefetched
  // by one tile. The other tiles prefetch what they read anyway.
  constexpr int64_t kLine = 64 / sizeof(Element), kWidth = vectors * Lanes::kWidth;
  constexpr int64_t kLines = kWidth < kLine ? 1 : kWidth / kLine;
  const int64_t turn = count < kLines ? 1 : count / kLines;
  for (int64_t i = 0; i < count; ++i) {
    tile.more_rows = tile.rows + pointers;
    const bool fetches = i % turn == 0 && i / turn < kLines;
    tile.ahead = fetches ? tile.taps * tile.depth * kWidth + i / turn * kLine : 0;
    ComputeRows<vectors>(tile);
    tile.rows += kRowsOf<vectors> / kTileRows * pointers;
    tile.out += kRowsOf<vectors> * tile.stride;
    if (tile.addend != nullptr) tile.addend += kRowsOf<vectors> * tile.stride;
  }
}

/// Computes whole tiles into a buffer and copies the pixels and columns that are wanted.
template <int vectors>
void ComputeBeside(const Part& part, const RowTile& tile, int64_t pixels) {
  constexpr int kColumns = vectors * Lanes::kWidth, kRows = kRowsOf<vectors>, kMost = 8 * kRows;
  alignas(64) Element sums[kMost * kColumns], addends[kMost * kColumns];
  const int64_t stride = tile.stride;
  for (int64_t pixel = 0; pixel < pixels; pixel += kMost) {
    const int64_t count = pixels - pixel < kMost ? pixels - pixel : kMost;
    RowTile moved = tile;
    moved.rows += pixel * part.block.taps;
    moved.out = sums;
    moved.stride = kColumns;
    if (tile.addend != nullptr) {
      moved.addend = addends;
      for (int64_t r = 0; r < count; ++r) {
        CopyColumns(tile.addend + (pixel + r) * stride, addends + r * kColumns, part.columns);
      }
    }
    Compute<vectors>(part, moved, (count + kRows - 1) / kRows);
    for (int64_t r = 0; r < count; ++r) {
      CopyColumns(sums + r * kColumns, tile.out + (pixel + r) * stride, part.columns);
    }
  }
}

template <int vectors>
void RunTiles(const Part& part) {
  constexpr int64_t kRows = kRowsOf<vectors>;
  RowTile tile = part.tile;
  const bool finished = SetLimits(tile, part.activation);
  const int64_t pixels = part.block.pixels;
  const bool in_place = kMasked || part.columns == vectors * Lanes::kWidth;
  const int64_t whole = in_place ? pixels / kRows * kRows : 0;
  tile.lanes = part.columns - (vectors - 1) * Lanes::kWidth;
  if (whole > 0) Compute<vectors>(part, tile, whole / kRows);
  if (whole < pixels) {
    RowTile rest = part.At(whole);
    SetLimits(rest, part.activation);
    if (kAnyRows && in_place) {
      rest.lanes = tile.lanes;
      rest.more_rows = rest.rows + part.block.taps * kTileRows;
      ComputeSome<vectors>(rest, pixels - whole);
    } else {
      ComputeBeside<vectors>(part, rest, pixels - whole);
    }
  }
  if (finished || part.activation.kind == Activation::kNone) return;
  ActivateTile<vectors>(part.activation, tile.out, tile.stride, static_cast<int>(pixels),
                        part.columns);
}

/// Runs the tiles that are as wide as the panel.
void RunPanel(const Part& part, int width) {
  Unroll<kTileVectors>([&](auto v) {
    constexpr int kVectors = v + 1;
    if constexpr (kVectors * Lanes::kWidth % kTileGranule == 0) {
      if (width == kVectors * Lanes::kWidth) RunTiles<kVectors>(part);
    }
  });
}

/// All pixels times the panel that starts at `column`, in parts that stay in the L1 cache.
void MultiplyPanel(const Block& block, int64_t column) {
  alignas(64) static constexpr Element kZeros[kTileColumns] = {};
  const int64_t left = block.columns - column;
  const int used = static_cast<int>(left < kTileColumns ? left : kTileColumns);
  const int width = (used + kTileGranule - 1) / kTileGranule * kTileGranule;
  const int64_t near = kPanelBytes / (width * static_cast<int64_t>(sizeof(Element)));
  const bool passes_once = block.pixels <= 2 * kTileRows;
  const int64_t most = passes_once || near > kMostSteps ? kMostSteps : near;
  const PanelCut cut = CutPanel(block, most, 4);
  ForPartsOfPanel<RowTile>(
      block, column, width, kTileRows, cut, kZeros, [&](const RowTile& tile, bool last) {
        RunPanel({block, tile, used, last ? block.activation : ActivationSpec()}, width);
      });
}

void MultiplyBlock(const Block& block) {
  for (int64_t column = 0; column < block.columns; column += kTileColumns) {
    MultiplyPanel(block, column);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
