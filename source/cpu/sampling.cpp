// SPDX-License-Identifier: MIT
#include "cpu/sampling.h"

#include <algorithm>
#include <limits>

namespace oort {

int32_t ArgmaxOf(const SamplingKernels& kernels, const float* row, int64_t count) {
  // Only the block that has it is looked through number by number.
  constexpr int64_t kBlock = 2048;
  float best = -std::numeric_limits<float>::infinity();
  int64_t first = -1;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const float most = kernels.max(row + begin, std::min(kBlock, count - begin));
    if (!(most > best)) continue;
    best = most;
    first = begin;
  }
  if (first < 0) return -1;
  return static_cast<int32_t>(std::find(row + first, row + count, best) - row);
}

}  // namespace oort
