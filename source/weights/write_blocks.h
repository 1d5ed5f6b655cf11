// SPDX-License-Identifier: MIT
// The blocks of GGUF, written: what weight_blocks.h reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weights/weight_format.h"

namespace oort {

/// One block, taken apart. Codes are as ReadGroups gives them.
struct BlockParts {
  const int8_t* codes = nullptr;
  /// Of the block: its scale and minimum, or the steps that those of its groups count.
  float scale = 0, minimum = 0;
  const int* scale_counts = nullptr;  ///< of the groups of K types
  const int* minimum_counts = nullptr;
};

/// Whether there is a function for it; true for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K.
bool CanWriteBlocks(WeightFormat format);
void WriteBlock(WeightFormat format, const BlockParts& parts, std::byte* to);

}  // namespace oort
