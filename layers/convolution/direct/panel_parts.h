// SPDX-License-Identifier: MIT
// A panel of filters, part by part. Only for row_block.h and row_block_f16_neon.h.
#pragma once

#include <cstdint>

#include "layers/convolution/direct/direct_conv_kernels.h"

namespace oort::OORT_ISA {

/// The part of a panel that is multiplied at once: some taps, or, with a single tap, a part of its
/// depth.
struct PanelCut {
  int64_t taps, depth;
};

/// Parts of at most `most` steps of taps and depth; a part of a tap is a multiple of `granule`.
template <typename T>
inline PanelCut CutPanel(const RowBlockOf<T>& block, int64_t most, int64_t granule) {
  if (block.taps * block.depth <= most) return {block.taps, block.depth};
  const auto equal = [](int64_t all, int64_t at_most) {
    const int64_t parts = (all + at_most - 1) / at_most;
    return (all + parts - 1) / parts;
  };
  if (block.taps == 1) return {1, (equal(block.depth, most) + granule - 1) / granule * granule};
  return {equal(block.taps, most < block.depth ? 1 : most / block.depth), block.depth};
}

/// Calls run(tile, last) for each part of the panel that starts at `column` and is `width` columns
/// wide; tiles are of `tile_rows` pixels. The first part begins with the bias and the addend, the
/// others with `zeros` and what the part before has left.
template <typename Tile, typename T, typename Run>
inline void ForPartsOfPanel(const RowBlockOf<T>& block, int64_t column, int64_t width,
                            int64_t tile_rows, const PanelCut& cut, const T* zeros,
                            const Run& run) {
  const int64_t all = block.taps * block.depth;
  Tile tile;
  tile.rows = block.rows;
  tile.weights = block.weights + column * all;
  tile.bias = block.bias + column;
  tile.addend = block.addend == nullptr ? nullptr : block.addend + column;
  tile.out = block.out + column;
  tile.stride = block.stride;
  for (int64_t done = 0;;) {
    tile.taps = block.taps < 2 ? block.taps : (all - done) / block.depth;
    tile.depth = block.taps < 2 ? block.depth - done : block.depth;
    if (tile.taps > cut.taps) tile.taps = cut.taps;
    if (tile.depth > cut.depth) tile.depth = cut.depth;
    const int64_t now = tile.taps * tile.depth;
    done += now;
    run(tile, done == all);
    if (done == all) return;
    tile.bias = zeros;
    tile.addend = tile.out;
    tile.weights += now * width;
    if (block.taps == 1) {
      tile.offset += tile.depth;
    } else {
      tile.rows += tile.taps * tile_rows;
    }
  }
}

}  // namespace oort::OORT_ISA
