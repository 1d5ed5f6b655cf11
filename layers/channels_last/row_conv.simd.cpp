// SPDX-License-Identifier: MIT
#include "cpu/activation_epilogue.h"
#include "layers/channels_last/row_tile.h"

namespace oort::OORT_ISA {
namespace {

/// Cheap activations are limits, which the tile applies; says whether this is one.
bool SetLimits(RowTile& tile, const ActivationSpec& activation) {
  const bool relu = activation.kind == Activation::kRelu;
  tile.clamp = relu || activation.kind == Activation::kClamp;
  tile.low = relu ? 0.0f : activation.a;
  tile.high = relu ? __builtin_inff() : activation.b;
  return tile.clamp;
}

/// Computed beside the image, then copied as far as it is wanted.
void PartTile(const RowTile& tile, int used_rows, int used_columns) {
  alignas(64) float sums[kTileRows * kTileColumns], addends[kTileRows * kTileColumns] = {};
  RowTile whole = tile;
  whole.out = sums;
  whole.out_stride = whole.addend_stride = kTileColumns;
  if (tile.addend != nullptr) {
    whole.addend = addends;
    for (int r = 0; r < used_rows; ++r) {
      for (int c = 0; c < used_columns; ++c) {
        addends[r * kTileColumns + c] = tile.addend[r * tile.addend_stride + c];
      }
    }
  }
  ComputeRows(whole);
  for (int r = 0; r < used_rows; ++r) {
    float* out = tile.out + r * tile.out_stride;
    for (int c = 0; c < used_columns; ++c) out[c] = sums[r * kTileColumns + c];
  }
}

void Tile(RowTile tile, int used_rows, int used_columns, const ActivationSpec& activation) {
  const bool finished = SetLimits(tile, activation);
  if (used_rows == kTileRows && used_columns == kTileColumns) {
    ComputeRows(tile);
  } else {
    PartTile(tile, used_rows, used_columns);
  }
  if (finished || activation.kind == Activation::kNone) return;
  for (int r = 0; r < used_rows; ++r) {
    ActivateInPlace(activation, tile.out + r * tile.out_stride, used_columns);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(RowConvKernels, {.rows = kTileRows, .columns = kTileColumns, .tile = Tile})
