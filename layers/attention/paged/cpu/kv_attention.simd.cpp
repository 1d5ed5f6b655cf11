// SPDX-License-Identifier: MIT
#include <cstring>

#include "layers/attention/paged/cpu/kv_rows.h"
#include "layers/quantized_linear/cpu/quantized_scales.h"

namespace oort::OORT_ISA {
namespace {

/// How many vectors of sums a row has at a time: as many as fit the registers for all rows.
template <int rows>
inline constexpr int kSumVectors = rows > 4 ? 2 : 4;

/// scores[row][token] of `width` vectors of tokens of one block.
template <KvType type, int rows, int width>
inline void VectorScores(const KvAttention& a, const std::byte* keys, int first,
                         float (&scores)[kKvRows][kStepTokens], int at) {
  Vec sums[rows][width];
  Unroll<rows>([&](auto r) { Unroll<width>([&](auto i) { sums[r][i] = Vec(0.0f); }); });
  AddSteps<rows, width>(
      a.head_dim,
      [&](int64_t d, int i) {
        return LoadKey<type>(keys, a.head_dim, d, (first + i) * Vec::kWidth);
      },
      [&](int r) { return a.query[r]; }, sums);
  const Vec scale(a.scale);
  Unroll<width>([&](auto i) {
    const int token = (first + i) * Vec::kWidth;
    Vec factor = scale;
    if constexpr (type == KvType::kInt8) {
      factor = factor * LoadFloat(ScalesOf(keys, a.head_dim), token);
    }
    Unroll<rows>([&](auto r) { (sums[r][i] * factor).Store(scores[r] + at + token); });
  });
}

template <KvType type, int rows>
inline void BlockScores(const KvAttention& a, const std::byte* keys,
                        float (&scores)[kKvRows][kStepTokens], int at) {
  constexpr int kWidth = kSumVectors<rows> < kTokenVectors ? kSumVectors<rows> : kTokenVectors;
  for (int i = 0; i < kTokenVectors; i += kWidth) {
    VectorScores<type, rows, kWidth>(a, keys, i, scores, at);
  }
}

/// Adds the values of one block, `width` vectors from element d on.
template <KvType type, int rows, int width>
inline void AddValues(const KvAttention& a, const std::byte* values, int64_t d, int tokens,
                      const float (&weights)[kKvRows][kStepTokens], int at) {
  Vec sums[rows][width];
  Unroll<rows>([&](auto r) {
    Unroll<width>([&](auto i) { sums[r][i] = Vec::Load(a.sums[r] + d + i * Vec::kWidth); });
  });
  AddSteps<rows, width>(
      tokens,
      [&](int64_t t, int i) { return LoadValue<type>(values, a.head_dim, t, d + i * Vec::kWidth); },
      [&](int r) { return weights[r] + at; }, sums);
  Unroll<rows>([&](auto r) {
    Unroll<width>([&](auto i) { sums[r][i].Store(a.sums[r] + d + i * Vec::kWidth); });
  });
}

/// The last elements of a head, which do not fill a vector.
template <KvType type>
inline float ElementAt(const std::byte* values, int64_t head_dim, int64_t token, int64_t d) {
  const int64_t index = token * head_dim + d;
  if constexpr (type == KvType::kK6V4) {
    return ElementOfV4(values, K6V4Layout(head_dim), token, d);
  } else if constexpr (type == KvType::kF32) {
    float value;
    std::memcpy(&value, values + 4 * index, 4);
    return value;
  } else if constexpr (type == KvType::kF16) {
    uint16_t half;
    std::memcpy(&half, values + 2 * index, 2);
    return HalfToFloat(half);
  } else {
    return static_cast<float>(static_cast<int8_t>(values[index]));
  }
}

template <KvType type, int rows>
inline void BlockValues(const KvAttention& a, const std::byte* values, int tokens,
                        float (&weights)[kKvRows][kStepTokens], int at) {
  if constexpr (type == KvType::kInt8) {
    const std::byte* scales = ScalesOf(values, a.head_dim);
    for (int t = 0; t < tokens; ++t) {
      float scale;
      std::memcpy(&scale, scales + 4 * t, 4);
      Unroll<rows>([&](auto r) { weights[r][at + t] *= scale; });
    }
  }
  int64_t d = 0;
  constexpr int kWide = kSumVectors<rows>;
  for (; d + kWide * Vec::kWidth <= a.head_dim; d += kWide * Vec::kWidth) {
    AddValues<type, rows, kWide>(a, values, d, tokens, weights, at);
  }
  for (; d + Vec::kWidth <= a.head_dim; d += Vec::kWidth) {
    AddValues<type, rows, 1>(a, values, d, tokens, weights, at);
  }
  for (; d < a.head_dim; ++d) {
    for (int t = 0; t < tokens; ++t) {
      const float value = ElementAt<type>(values, a.head_dim, t, d);
      Unroll<rows>([&](auto r) { a.sums[r][d] += weights[r][at + t] * value; });
    }
  }
}

template <KvType type, int rows>
void AttendRows(KvAttention& a) {
  alignas(64) float scores[kKvRows][kStepTokens];
  const int64_t last_block = (a.end + kTokens - 1) / kTokens;
  FetchAhead<type> ahead(a, a.begin / kTokens, last_block);
  for (int64_t block = a.begin / kTokens, next = 0; block < last_block; block = next) {
    const int count = static_cast<int>(StepCount(block, last_block));
    next = block + count;
    for (int i = 0; i < count; ++i) {
      ahead.One();
      BlockScores<type, rows>(a, a.blocks[block + i].keys, scores, i * kTokens);
    }
    for (int r = 0; r < rows; ++r) {
      WeighScores(a, r, block * kTokens, count * kTokens, scores[r]);
    }
    for (int i = 0; i < count; ++i) {
      ahead.One();
      // Slots behind the last token hold stale data, so they are not read.
      const int64_t left = a.end - (block + i) * kTokens;
      const int tokens = left < kTokens ? static_cast<int>(left) : kTokens;
      BlockValues<type, rows>(a, a.blocks[block + i].values, tokens, scores, i * kTokens);
    }
  }
}

template <KvType type>
void AttendType(KvAttention& a) {
  switch (a.rows) {
    case 1: return AttendRows<type, 1>(a);
    case 2: return AttendRows<type, 2>(a);
    case 3: return AttendRows<type, 3>(a);
    case 4: return AttendRows<type, 4>(a);
    case 5: return AttendRows<type, 5>(a);
    case 6: return AttendRows<type, 6>(a);
    case 7: return AttendRows<type, 7>(a);
    default: return AttendRows<type, 8>(a);
  }
}

void AttendAny(KvAttention& a) {
  switch (a.type) {
    case KvType::kF32: return AttendType<KvType::kF32>(a);
    case KvType::kF16: return AttendType<KvType::kF16>(a);
    case KvType::kInt8: return AttendType<KvType::kInt8>(a);
    case KvType::kK6V4: return AttendType<KvType::kK6V4>(a);
    case KvType::kFp8: break;  // refused before
  }
}

void Attend(KvAttention& a) {
  BeginRows(a);
  AttendAny(a);
  EndRows(a);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(KvKernels, {.attend = OORT_ISA::Attend})
