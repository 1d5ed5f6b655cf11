// SPDX-License-Identifier: MIT
// What attention of few rows and of many does alike, so that the result of a row does not depend on
// which of the two computes it. Only for *.simd.cpp.
#pragma once

#include <cstring>

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "cpu/vec_math.h"
#include "layers/attention/paged/cpu/kv_fetch.h"
#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/cpu/kv_load.h"

namespace oort::OORT_ISA {

inline constexpr int kTokenVectors = kTokens / Vec::kWidth;
inline constexpr int kStepTokens = kStepBlocks * kTokens;
inline constexpr float kMasked = -1e30f;

/// Four factors of each row. They stay in registers where an instruction can multiply by one of
/// their lanes.
template <int rows>
struct FourFactors {
#if defined(OORT_ISA_neon)
  Vec v[rows];
  template <typename At>
  [[gnu::always_inline]] explicit FourFactors(At at) {
    Unroll<rows>([&](auto r) { v[r] = Vec::Load(at(r)); });
  }
  template <int row, int lane>
  [[gnu::always_inline]] Vec Times(Vec a, Vec sum) const {
    return Vec(vfmaq_laneq_f32(sum.v, a.v, v[row].v, lane));
  }
#else
  const float* p[rows];
  template <typename At>
  [[gnu::always_inline]] explicit FourFactors(At at) {
    Unroll<rows>([&](auto r) { p[r] = at(r); });
  }
  template <int row, int lane>
  [[gnu::always_inline]] Vec Times(Vec a, Vec sum) const {
    return Fma(a, Vec(p[row][lane]), sum);
  }
#endif
};

/// sums[row][i] += load(step)[i] * factor(row)[step] for all steps, one after the other.
template <int rows, int width, typename Load, typename Factor>
[[gnu::always_inline]] inline void AddSteps(int64_t steps, Load load, Factor factor,
                                            Vec (&sums)[rows][width]) {
  int64_t step = 0;
  for (; step + 4 <= steps; step += 4) {
    const FourFactors<rows> four([&](int r) { return factor(r) + step; });
    Unroll<4>([&](auto j) {
      constexpr int kLane = j;
      Vec v[width];
      Unroll<width>([&](auto i) { v[i] = load(step + j, i); });
      Unroll<rows>([&](auto r) {
        constexpr int kRow = r;
        Unroll<width>(
            [&](auto i) { sums[r][i] = four.template Times<kRow, kLane>(v[i], sums[r][i]); });
      });
    });
  }
  for (; step < steps; ++step) {
    Vec v[width];
    Unroll<width>([&](auto i) { v[i] = load(step, i); });
    Unroll<rows>([&](auto r) {
      const Vec one(factor(r)[step]);
      Unroll<width>([&](auto i) { sums[r][i] = Fma(v[i], one, sums[r][i]); });
    });
  }
}

/// exp(x) for -87 <= x <= 0: as Exp, but nothing overflows.
inline Vec ExpOfNegative(Vec x) {
  const ExpParts parts = SplitExp(x);
  return ExpNearZero(parts.r) * PowerOfTwo(parts.n);
}

/// Scores of tokens that the row does not see, of the `count` from `first_token` on, become
/// kMasked.
template <typename Queries>
inline void MaskScores(const Queries& a, int row, int64_t first_token, int count, float* scores) {
  const int64_t unseen = a.first[row] - first_token, seen = a.last[row] + 1 - first_token;
  for (int64_t i = 0; i < unseen && i < count; ++i) scores[i] = kMasked;
  for (int64_t i = seen < 0 ? 0 : seen; i < count; ++i) scores[i] = kMasked;
}

/// Adds to scores what the distances of their tokens say.
template <typename Queries>
inline void AddBias(const Queries& a, int row, int64_t first_token, int count, float* scores) {
  const float* const bias = a.bias[row];
  const int64_t near = a.last[row] + 1 - a.distances - first_token;
  const int64_t seen =
      a.last[row] + 1 - first_token < count ? a.last[row] + 1 - first_token : count;
  for (int64_t i = 0; i < near && i < seen; ++i) scores[i] += bias[0];
  for (int64_t i = near < 0 ? 0 : near; i < seen; ++i) scores[i] += bias[i - near];
}

/// One step of the online softmax (Milakov and Gimelshein 2018, as in FlashAttention, Dao et al.
/// 2022): masks the scores of tokens that the row does not see, turns the others into weights
/// relative to the new maximum, and rescales what was summed so far to that maximum. It is not
/// inlined, because a call costs nothing beside the scores of a step, and each instance of the
/// caller would hold eight copies.
template <typename Queries>
[[gnu::noinline]] void WeighScores(Queries& a, int row, int64_t first_token, int count,
                                   float* scores) {
  if (a.bias[row] != nullptr) AddBias(a, row, first_token, count, scores);
  if (a.softcap > 0) {
    const Vec cap(a.softcap);
    for (int i = 0; i < count; i += Vec::kWidth) {
      (Tanh(Vec::Load(scores + i) / cap) * cap).Store(scores + i);
    }
  }
  MaskScores(a, row, first_token, count, scores);
  Vec largest(kMasked);
  for (int i = 0; i < count; i += Vec::kWidth) largest = FastMax(Vec::Load(scores + i), largest);
  const float most = ReduceMax(largest);
  if (most > a.max[row]) {
    const float shrink = a.weight[row] == 0.0f ? 0.0f : __builtin_expf(a.max[row] - most);
    a.max[row] = most;
    a.weight[row] *= shrink;
    const Vec factor(shrink);
    for (int64_t d = 0; d < a.head_dim; d += Vec::kWidth) {
      const int rest =
          a.head_dim - d < Vec::kWidth ? static_cast<int>(a.head_dim - d) : Vec::kWidth;
      (Vec::LoadPartial(a.sums[row] + d, rest) * factor).StorePartial(a.sums[row] + d, rest);
    }
  }
  Vec sum(0.0f);
  const Vec max(a.max[row]);
  // A weight below exp(-87) is none: it would be lost beside the largest, which is 1.
  const Vec least = FastMax(max - Vec(87.0f), Vec(kMasked));
  for (int i = 0; i < count; i += Vec::kWidth) {
    const Vec score = Vec::Load(scores + i);
    const Vec weight = Select(score > least, ExpOfNegative(score - max), Vec(0.0f));
    weight.Store(scores + i);
    sum = sum + weight;
  }
  a.weight[row] += ReduceAdd(sum);
}

/// Before the first step.
template <typename Queries>
void BeginRows(Queries& a) {
  for (int r = 0; r < a.rows; ++r) {
    a.max[r] = kMasked;
    a.weight[r] = 0;
    std::memset(a.sums[r], 0, static_cast<size_t>(a.head_dim) * sizeof(float));
  }
}

/// After the last one: sums become means.
template <typename Queries>
void EndRows(Queries& a) {
  for (int r = 0; r < a.rows; ++r) {
    float* const sums = a.sums[r];
    const float inverse = 1.0f / a.weight[r];
    for (int64_t d = 0; d < a.head_dim; ++d) sums[d] *= inverse;
  }
}

}  // namespace oort::OORT_ISA
