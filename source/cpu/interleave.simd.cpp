// SPDX-License-Identifier: MIT
#include "cpu/interleave.h"

#include "cpu/quad.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {
namespace {

/// `count` rows, four elements of each at a time; returns how many of each were taken.
template <int count>
int64_t InterleaveSome(const float* const* rows, int width, int64_t depth, float* panel) {
  constexpr int kBlocks = (count + 3) / 4;
  const float* from[4 * kBlocks];
  Unroll<4 * kBlocks>([&](auto i) { from[i] = rows[i < count ? i : 0]; });
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4, panel += 4 * width) {
    Unroll<kBlocks>([&](auto b) {
      constexpr int kUsed = count - 4 * b < 4 ? count - 4 * b : 4;
      Quad q[4];
      Unroll<4>([&](auto i) { q[i] = LoadQuad(from[4 * b + i] + k); });
      Transpose(q);
      Unroll<4>([&](auto i) { StoreFirst<kUsed>(q[i], panel + i * width + 4 * b); });
    });
  }
  return k;
}

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
  return InterleaveSome<3>(rows, 3, depth, panel);
#endif
}

using InterleaveFunction = int64_t (*)(const float* const* rows, int width, int64_t depth,
                                       float* panel);
constexpr InterleaveFunction kInterleave[] = {
    InterleaveSome<1>, InterleaveSome<2>, InterleaveSome<3>, InterleaveSome<4>,
    InterleaveSome<5>, InterleaveSome<6>, InterleaveSome<7>, InterleaveSome<8>};

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
