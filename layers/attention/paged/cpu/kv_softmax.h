// SPDX-License-Identifier: MIT
// The online softmax (Milakov and Gimelshein 2018) with powers of 2: the maximum and the sum are
// those of the scores seen so far. Only for kernels of attention.
#pragma once

#include "cpu/vec.h"

namespace oort::OORT_ISA {

inline constexpr float kMasked = -1e30f;
inline constexpr float kLog2E = 1.44269504f;

/// The factor that turns scores into exponents of 2. Scores with a soft cap are multiplied by
/// log2(e) after the cap instead.
template <typename Queries>
float ScoreFactor(const Queries& a) {
  return a.scale * (a.softcap > 0 ? 1.0f : kLog2E);
}

/// Raises the maximum of a row to `most`, an exponent of 2, and rescales what was summed so far.
template <typename Queries>
void RaiseMax(Queries& a, int row, float most, float* sums) {
  if (!(most > a.max[row])) return;
  const float shrink = a.weight[row] == 0.0f ? 0.0f : __builtin_exp2f(a.max[row] - most);
  a.max[row] = most;
  a.weight[row] *= shrink;
  for (int64_t d = 0; d < a.head_dim; d += Vec::kWidth) {
    (Vec::Load(sums + d) * Vec(shrink)).Store(sums + d);
  }
}

}  // namespace oort::OORT_ISA
