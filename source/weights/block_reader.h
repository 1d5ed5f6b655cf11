// SPDX-License-Identifier: MIT
// How the types of blocks become a BlockFormat: each has the members of the file in their order,
// what it holds, and a Read that gives the groups of one block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weights/weight_blocks.h"

// Read where it lies, at any address and whatever the bytes were before: a copy costs as much
// again.
#define OORT_PACKED __attribute__((packed, may_alias))

namespace oort {

inline constexpr int kSpan = 256;  ///< elements of a block whose scales count its steps

template <typename Block>
void ReadBlocks(const std::byte* bytes, int64_t blocks, int8_t* __restrict q,
                float* __restrict scale, float* __restrict minimum) {
  constexpr int kGroups = Block::kElements / Block::kLayout.group;
  for (int64_t i = 0; i < blocks; ++i) {
    reinterpret_cast<const Block*>(bytes + i * static_cast<int64_t>(sizeof(Block)))
        ->Read(q, scale, minimum);
    q += Block::kElements;
    scale += kGroups;
    if constexpr (Block::kLayout.has_minimum) minimum += kGroups;
  }
}

/// A block whose steps are not its f16 numbers has ScaleStep, and MinimumStep with minimums.
template <typename Block>
void ReadBlockSteps(const std::byte* bytes, int64_t blocks, float* scale, float* minimum) {
  for (int64_t i = 0; i < blocks; ++i) {
    const Block* block =
        reinterpret_cast<const Block*>(bytes + i * static_cast<int64_t>(sizeof(Block)));
    if constexpr (requires { block->ScaleStep(); }) {
      scale[i] = block->ScaleStep();
      if constexpr (Block::kLayout.has_minimum) minimum[i] = block->MinimumStep();
    } else {
      scale[i] = HalfBitsToFloat(block->d);
      if constexpr (Block::kLayout.has_minimum) minimum[i] = -HalfBitsToFloat(block->dmin);
    }
  }
}

template <typename Block, int kBytes>
const BlockFormat* FormatOf() {
  static_assert(sizeof(Block) == kBytes);
  constexpr bool kSpans = Block::kLayout.span != 0;
  static_assert(!kSpans || Block::kLayout.span == Block::kElements);
  static constexpr BlockFormat kFormat = [] {
    BlockFormat format{Block::kElements, kBytes, Block::kLayout, &ReadBlocks<Block>};
    if constexpr (kSpans) format.read_steps = &ReadBlockSteps<Block>;
    return format;
  }();
  return &kFormat;
}

/// Of the formats whose weights are points of a grid, IQ1 to IQ3; null for others.
const BlockFormat* GridFormatOf(WeightFormat format);

}  // namespace oort
