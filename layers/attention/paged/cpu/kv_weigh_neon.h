// SPDX-License-Identifier: MIT
// A step of the online softmax on NEON: scores of a row become weights. Only for kv_tiles_neon.h
// and kv_f16.mmla.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/vec_math.h"
#include "layers/attention/paged/cpu/kv_softmax.h"

namespace oort::OORT_ISA {

/// 2^x for x <= 0, to 18 bits; 0 below -126.5.
inline Vec PowerOf2(Vec x) {
  // Adding the magic number leaves round(x) in the low bits, as in SplitExp. It includes the bias
  // 127, so that a shift makes it an exponent.
  const Vec magic = 12582912.0f + 127.0f;
  x = FastMax(x, -127.0f);
  const Vec shifted = x + magic;
  const Vec f = x - (shifted - magic);
  Vec y = Fma(f, 0.00133335581f, 0.00961812911f);
  y = Fma(y, f, 0.0555041087f);
  y = Fma(y, f, 0.240226507f);
  y = Fma(y, f, 0.693147181f);
  y = Fma(y, f, 1.0f);
  return y * FromBits(ShiftLeft<23>(Bits(shifted)));
}

/// Turns the scores of a row over `tokens` tokens (a multiple of 4) from `token` on into weights,
/// by store(i, weights of tokens i to i + 3). Tokens that the row does not see get zeros.
template <typename Queries, typename Store>
void WeighRow(Queries& a, int row, int64_t token, int tokens, float* scores, float* sums,
              Store store) {
  const auto within = [&](int64_t i) {
    return static_cast<int>(std::clamp<int64_t>(i - token, 0, tokens));
  };
  const int from = within(a.first[row]), to = std::max(from, within(a.last[row] + 1));
  const int begin = from / 4 * 4, end = from == to ? begin : (to + 3) / 4 * 4;
  for (int i = 0; i < begin; i += 4) store(i, Vec(0.0f));
  for (int i = end; i < tokens; i += 4) store(i, Vec(0.0f));
  if (from == to) return;
  if (a.softcap > 0) {
    for (int i = begin; i < end; i += 4) {
      const Vec capped = Tanh(Vec::Load(scores + i) / Vec(a.softcap));
      (capped * Vec(a.softcap * kLog2E)).Store(scores + i);
    }
  }
  std::fill(scores + begin, scores + from, kMasked);
  std::fill(scores + to, scores + end, kMasked);
  Vec largest(kMasked);
  for (int i = begin; i < end; i += 4) largest = FastMax(Vec::Load(scores + i), largest);
  RaiseMax(a, row, ReduceMax(largest), sums);
  const Vec max(a.max[row]);
  Vec total(0.0f);
  for (int i = begin; i < end; i += 4) {
    const Vec weight = PowerOf2(Vec::Load(scores + i) - max);
    total = total + weight;
    store(i, weight);
  }
  a.weight[row] += ReduceAdd(total);
}

}  // namespace oort::OORT_ISA
