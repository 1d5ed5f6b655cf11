// SPDX-License-Identifier: MIT
// Writes keys in 6 bits and values in 4 (layers/attention/paged/cpu/k6v4_layout.h). Only for
// kv_write.simd.cpp.
#pragma once

#include <cstring>

#include "cpu/vec.h"
#include "layers/attention/paged/cpu/kv_load_k6v4.h"
#include "oort/dtype.h"

namespace oort::OORT_ISA {

/// How numbers of at most `most` become whole ones up to 127, and what these mean. Numbers below
/// 1e-30 are none: their scale would not be exact in f32, 127 over them may be infinite, and so
/// would be what is rounded. To a score or a sum they are nothing. Nor are there any in a group
/// with an infinite one.
struct EightBits {
  float scale = 0, inverse = 0;
  explicit EightBits(float most) {
    if (!(most > 1e-30f && most < 3.4e38f)) return;
    scale = most / 127.0f;
    inverse = 127.0f / most;
  }
  std::byte Of(float x) const {
    const float q = __builtin_rintf(x * inverse);
    return static_cast<std::byte>(static_cast<int8_t>(q >= -127 ? q : -127.0f));
  }
};

inline constexpr int kKvGroup = static_cast<int>(K6V4Layout::kGroup);

/// The f16 that is nearest, of finite ones; 0 of NaN.
inline uint16_t FiniteHalf(float value) {
  constexpr float kMost = 65504;
  if (!(value >= -kMost)) value = value < 0 ? -kMost : 0;
  return FloatToHalf(value > kMost ? kMost : value);
}

/// A group of a head's elements; behind the last one it is filled up with what leaves the smallest
/// and the largest as they are. NaN and -0 are 0: processors differ in what the larger of NaN and a
/// number is, or of both zeros, and one NaN must not take the other elements with it.
struct KvGroup {
  alignas(64) float v[kKvGroup];
  int count;
  KvGroup(const float* head, int64_t head_dim, int64_t first)
      : count(static_cast<int>(head_dim - first < kKvGroup ? head_dim - first : kKvGroup)) {
    std::memcpy(v, head + first, static_cast<size_t>(count) * sizeof(float));
    for (int i = count; i < kKvGroup; ++i) v[i] = v[0];
    for (int i = 0; i < kKvGroup; i += Vec::kWidth) {
      const Vec some = Vec::Load(v + i), zero(0.0f);
      (Select(IsNan(some), zero, some) + zero).Store(v + i);
    }
  }

  float LargestSize() const {
    Vec most(0.0f);
    for (int i = 0; i < kKvGroup; i += Vec::kWidth) most = FastMax(Abs(Vec::Load(v + i)), most);
    return ReduceMax(most);
  }
  /// numbers[i] = (v[i] - from) * factor + shift, rounded, within 0 to `most`. Not fused: not every
  /// instruction set can, and what lies halfway would round otherwise.
  void Round(float from, float factor, float shift, float most,
             int32_t (&numbers)[kKvGroup]) const {
    for (int i = 0; i < kKvGroup; i += Vec::kWidth) {
      const Vec steps = (Vec::Load(v + i) - Vec(from)) * Vec(factor) + Vec(shift);
      float within[Vec::kWidth];
      FastMin(FastMax(steps, Vec(0.0f)), Vec(most)).Store(within);
      for (int j = 0; j < Vec::kWidth; ++j) {
        numbers[i + j] = static_cast<int32_t>(__builtin_rintf(within[j]));
      }
    }
  }
};

inline float Inverse(float scale) { return scale > 0 ? 1 / scale : 0; }

/// What the first token of a block has is the centre of the keys of all.
inline void WriteCentre(const KvGroup& keys, K6V4Layout at, int64_t group, std::byte* side) {
  const EightBits bits(keys.LargestSize());
  std::memcpy(side + at.CentreScales() + 4 * group, &bits.scale, 4);
  for (int i = 0; i < kKvGroup; ++i) {
    side[at.Centres() + group * kKvGroup + i] = bits.Of(keys.v[i]);
  }
}

/// The keys of one head of a token for place `slot` of a block.
inline void WriteK6(const float* head, int64_t head_dim, int64_t slot, std::byte* side) {
  const K6V4Layout at(head_dim);
  for (int64_t group = 0; group < at.groups; ++group) {
    const int64_t first = group * kKvGroup;
    KvGroup keys(head, head_dim, first);
    if (slot == 0) WriteCentre(keys, at, group, side);
    for (int i = 0; i < kKvGroup; ++i) keys.v[i] -= CentreOf(side, at, first + i);
    const uint16_t scale = FiniteHalf(keys.LargestSize() / K6V4Layout::kKeyMiddle);
    std::memcpy(side + at.KeyScales(group) + 2 * slot, &scale, 2);
    int32_t q[kKvGroup];
    keys.Round(0, Inverse(HalfToFloat(scale)), K6V4Layout::kKeyMiddle, 63, q);
    for (int i = 0; i < kKvGroup; i += 2) {
      side[K6V4Layout::LowBits(first + i) + slot] =
          static_cast<std::byte>((q[i] & 15) | (q[i + 1] & 15) << 4);
    }
    for (int i = 0; i < kKvGroup; i += 4) {
      side[at.HighBits(first + i) + slot] = static_cast<std::byte>(
          q[i] >> 4 | q[i + 1] >> 4 << 2 | q[i + 2] >> 4 << 4 | q[i + 3] >> 4 << 6);
    }
  }
}

/// Likewise the values.
inline void WriteV4(const float* head, int64_t head_dim, int64_t slot, std::byte* side) {
  const K6V4Layout at(head_dim);
  for (int64_t group = 0; group < at.groups; ++group) {
    const KvGroup values(head, head_dim, group * kKvGroup);
    Vec least(3.4e38f), largest(-3.4e38f);
    for (int i = 0; i < kKvGroup; i += Vec::kWidth) {
      least = FastMin(Vec::Load(values.v + i), least);
      largest = FastMax(Vec::Load(values.v + i), largest);
    }
    const float low = ReduceMin(least), high = ReduceMax(largest);
    const uint16_t of_group[2] = {FiniteHalf((high - low) / K6V4Layout::kValueMost),
                                  FiniteHalf(low)};
    std::memcpy(side + at.ValueScales(slot, group), of_group, sizeof(of_group));
    int32_t q[kKvGroup];
    values.Round(HalfToFloat(of_group[1]), Inverse(HalfToFloat(of_group[0])), 0,
                 K6V4Layout::kValueMost, q);
    std::byte* const to = side + at.ValueBits(slot, group * kKvGroup);
    for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(q[i] | q[i + 16] << 4);
  }
}

}  // namespace oort::OORT_ISA
