// SPDX-License-Identifier: MIT
#include "cpu/interleave.h"

#include "cpu/quad.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {
namespace {

/// `blocks` times four rows, four elements of each at a time.
template <int blocks>
int64_t InterleaveBlocks(const float* const* rows, int width, int64_t depth, float* panel) {
  const float* from[4 * blocks];
  Unroll<4 * blocks>([&](auto i) { from[i] = rows[i]; });
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4, panel += 4 * width) {
    Unroll<blocks>([&](auto b) {
      Quad q[4];
      Unroll<4>([&](auto i) { q[i] = LoadQuad(from[4 * b + i] + k); });
      Transpose(q);
      Unroll<4>([&](auto i) { StoreQuad(q[i], panel + i * width + 4 * b); });
    });
  }
  return k;
}

void InterleaveRows(const float* const* rows, int count, int width, int64_t depth, float* panel) {
  for (int done = 0; done < width;) {
    const int left = count - done;
    const float* const* from = rows + done;
    int64_t k = 0;
    int taken = 4;
    if (left >= 8) {
      k = InterleaveBlocks<2>(from, width, depth, panel + done);
      taken = 8;
    } else if (left >= 4) {
      k = InterleaveBlocks<1>(from, width, depth, panel + done);
    } else if (left > 0) {
      taken = left;
    } else {
      taken = width - done;
    }
    float* to = panel + k * width + done;
    for (; k < depth; ++k, to += width) {
      for (int i = 0; i < taken; ++i) to[i] = i < left ? from[i][k] : 0.0f;
    }
    done += taken;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(InterleaveKernels, {.rows = InterleaveRows})
