// SPDX-License-Identifier: MIT
// Rows that lie apart in memory, put side by side. Only for *.simd.cpp.
#pragma once

#include "cpu/quad.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

/// `count` rows, four elements of each at a time; returns how many of each were taken.
template <int count>
inline int64_t InterleaveFours(const float* const* rows, int width, int64_t depth, float* panel) {
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

}  // namespace oort::OORT_ISA
