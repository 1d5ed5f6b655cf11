// SPDX-License-Identifier: MIT
#include "cpu/interleave.h"

#include "cpu/interleave_fours.h"

namespace oort::OORT_ISA {
namespace {

/// The pixels of an image of three colours.
int64_t InterleavePixels(const float* const* rows, int64_t depth, float* panel) {
#if defined(OORT_ISA_neon)
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4, panel += 12) {
    float32x4x3_t colours;
    for (int i = 0; i < 3; ++i) colours.val[i] = vld1q_f32(rows[i] + k);
    vst3q_f32(panel, colours);
  }
  return k;
#else
  return InterleaveFours<3>(rows, 3, depth, panel);
#endif
}

using InterleaveFunction = int64_t (*)(const float* const* rows, int width, int64_t depth,
                                       float* panel);
constexpr InterleaveFunction kInterleave[] = {
    InterleaveFours<1>, InterleaveFours<2>, InterleaveFours<3>, InterleaveFours<4>,
    InterleaveFours<5>, InterleaveFours<6>, InterleaveFours<7>, InterleaveFours<8>};

void InterleaveRows(const float* const* rows, int count, int width, int64_t depth, float* panel) {
  for (int done = 0; done < count; done += 8) {
    const int taken = count - done < 8 ? count - done : 8;
    int64_t k = width == 3 && taken == 3
                    ? InterleavePixels(rows, depth, panel)
                    : kInterleave[taken - 1](rows + done, width, depth, panel + done);
    for (; k < depth; ++k) {
      for (int i = done; i < done + taken; ++i) panel[k * width + i] = rows[i][k];
    }
  }
  if (count == width) return;
  for (int64_t k = 0; k < depth; ++k) {
    for (int i = count; i < width; ++i) panel[k * width + i] = 0.0f;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(InterleaveKernels, {.rows = InterleaveRows})
