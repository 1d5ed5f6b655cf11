// SPDX-License-Identifier: MIT
// Decode attention of a few rows over keys and values in f16. FMLAL multiplies f16 and adds in f32,
// so that nothing is converted: the processor does one conversion a cycle, which would take longer
// than the products.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/fmlal_neon.h"
#include "cpu/unroll.h"
#include "layers/attention/paged/cpu/kv_fetch.h"
#include "layers/attention/paged/cpu/kv_weigh_neon.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kStepTokens = kStepBlocks * kTokens;
constexpr int64_t kMostDim = 256;
constexpr float kMostQuery = 6e4f;

/// Scratch of all rows.
struct HalfBuffers {
  alignas(64) float16_t query[kKvRows][kMostDim];
  alignas(64) float scores[kKvRows][kStepTokens];
  alignas(64) float16_t weights[kKvRows][kStepTokens];
};

/// Multiplies the queries by the factor of the scores and rounds them; returns whether f16 can hold
/// them.
bool RoundQueries(const KvAttention& a, HalfBuffers& to) {
  const Vec factor(ScoreFactor(a));
  Vec most(0.0f);
  for (int r = 0; r < a.rows; ++r) {
    for (int64_t d = 0; d < a.head_dim; d += 4) {
      const Vec query = Vec::Load(a.query[r] + d) * factor;
      most = Max(most, Abs(query));  // NaN stays
      vst1_f16(to.query[r] + d, vcvt_f16_f32(query.v));
    }
  }
  return ReduceMax(most) < kMostQuery;
}

/// The most rows that share a load, because the registers hold the sums of all of them.
constexpr int kTogether = 4;

/// sums[row][i] += the i-th four numbers of what is loaded, times one lane of the row's factors.
/// Products by lane are faster than products with a copied or a broadcast factor.
template <int rows, int width, typename Lane>
[[gnu::always_inline]] inline void AddStep(const float16_t* from,
                                           const float16x4_t (&factors)[rows], Lane lane,
                                           float32x4_t (&sums)[rows][width]) {
  constexpr int kLane = lane;
  Unroll<width / 2>([&](auto i) {
    const float16x8_t eight = vld1q_f16(from + 8 * i);
    Unroll<rows>([&](auto r) {
      sums[r][2 * i] = MultiplyLow<kLane>(sums[r][2 * i], eight, factors[r]);
      sums[r][2 * i + 1] = MultiplyHigh<kLane>(sums[r][2 * i + 1], eight, factors[r]);
    });
  });
}

/// scores[row][token] of one block for `rows` rows from `first` on. Even and odd elements have sums
/// of their own, so that a product does not wait for the one before. This holds for any number of
/// rows, so that the result of a row does not depend on how many others there are.
template <int rows>
void BlockScores(const KvAttention& a, int first, const std::byte* keys, HalfBuffers& buffers,
                 int at) {
  constexpr int kWidth = rows > 3 ? 2 : 4;
  for (int token = 0; token < kTokens; token += 4 * kWidth) {
    const float16_t* from = reinterpret_cast<const float16_t*>(keys) + token;
    float32x4_t sums[2][rows][kWidth];
    Unroll<2 * rows>([&](auto r) {
      Unroll<kWidth>([&](auto i) { sums[r / rows][r % rows][i] = vdupq_n_f32(0); });
    });
    for (int64_t d = 0; d < a.head_dim; d += 4, from += 4 * kTokens) {
      float16x4_t four[rows];
      Unroll<rows>([&](auto r) { four[r] = vld1_f16(buffers.query[first + r] + d); });
      Unroll<4>([&](auto lane) { AddStep(from + lane * kTokens, four, lane, sums[lane % 2]); });
    }
    Unroll<rows>([&](auto r) {
      Unroll<kWidth>([&](auto i) {
        vst1q_f32(buffers.scores[first + r] + at + token + 4 * i,
                  vaddq_f32(sums[0][r][i], sums[1][r][i]));
      });
    });
  }
}

/// Adds `width` fours of values from element d on of some blocks.
template <int rows, int width>
void AddValues(const KvAttention& a, int first, int64_t d, int64_t block, int count,
               const HalfBuffers& buffers) {
  float32x4_t sums[rows][width];
  Unroll<rows>([&](auto r) {
    Unroll<width>([&](auto i) { sums[r][i] = vld1q_f32(a.sums[first + r] + d + 4 * i); });
  });
  for (int b = 0; b < count; ++b) {
    const float16_t* from = reinterpret_cast<const float16_t*>(a.blocks[block + b].values) + d;
    const auto weights = [&](int r) { return buffers.weights[first + r] + b * kTokens; };
    // Slots behind the last token hold stale data, so they are not read.
    const int64_t tokens = std::min<int64_t>(kTokens, a.end - (block + b) * kTokens);
    int64_t t = 0;
    float16x4_t four[rows];
    for (; t + 4 <= tokens; t += 4, from += 4 * a.head_dim) {
      Unroll<rows>([&](auto r) { four[r] = vld1_f16(weights(r) + t); });
      Unroll<4>([&](auto lane) { AddStep(from + lane * a.head_dim, four, lane, sums); });
    }
    for (; t < tokens; ++t, from += a.head_dim) {
      Unroll<rows>([&](auto r) { four[r] = vld1_dup_f16(weights(r) + t); });
      AddStep(from, four, std::integral_constant<int, 0>{}, sums);
    }
  }
  Unroll<rows>([&](auto r) {
    Unroll<width>([&](auto i) { vst1q_f32(a.sums[first + r] + d + 4 * i, sums[r][i]); });
  });
}

template <int rows>
void StepValues(const KvAttention& a, int first, int64_t block, int count,
                const HalfBuffers& buffers) {
  constexpr int kWidth = rows > 2 ? 4 : 8;
  for (int64_t d = 0; d < a.head_dim; d += 4 * kWidth) {
    AddValues<rows, kWidth>(a, first, d, block, count, buffers);
  }
}

/// Calls body(first, number of rows as a constant) for all rows.
template <typename Body>
void ForRows(int rows, Body body) {
  for (int first = 0; first < rows; first += kTogether) {
    switch (rows - first) {
      case 1: body(first, std::integral_constant<int, 1>{}); break;
      case 2: body(first, std::integral_constant<int, 2>{}); break;
      case 3: body(first, std::integral_constant<int, 3>{}); break;
      default: body(first, std::integral_constant<int, kTogether>{});
    }
  }
}

void AttendBlocks(KvAttention& a, HalfBuffers& buffers) {
  const int64_t last_block = (a.end + kTokens - 1) / kTokens;
  FetchAhead<KvType::kF16> ahead(a, a.begin / kTokens, last_block);
  for (int64_t block = a.begin / kTokens, next = 0; block < last_block; block = next) {
    const int count = static_cast<int>(StepCount(block, last_block));
    next = block + count;
    for (int i = 0; i < count; ++i) {
      ahead.One();
      ForRows(a.rows, [&](int first, auto rows) {
        BlockScores<rows>(a, first, a.blocks[block + i].keys, buffers, i * kTokens);
      });
    }
    for (int r = 0; r < a.rows; ++r) {
      WeighRow(a, r, block * kTokens, count * kTokens, buffers.scores[r], a.sums[r],
               [&](int i, Vec four) { vst1_f16(buffers.weights[r] + i, vcvt_f16_f32(four.v)); });
    }
    for (int i = 0; i < count; ++i) ahead.One();
    ForRows(a.rows,
            [&](int first, auto rows) { StepValues<rows>(a, first, block, count, buffers); });
  }
}

bool Attend(KvAttention& a) {
  HalfBuffers buffers;
  if (a.type != KvType::kF16 || a.head_dim % 32 != 0 || a.head_dim > kMostDim) return false;
  if (!RoundQueries(a, buffers)) return false;
  for (int r = 0; r < a.rows; ++r) {
    a.max[r] = kMasked;
    a.weight[r] = 0;
    std::memset(a.sums[r], 0, static_cast<size_t>(a.head_dim) * sizeof(float));
  }
  AttendBlocks(a, buffers);
  for (int r = 0; r < a.rows; ++r) {
    const Vec inverse(1.0f / a.weight[r]);
    for (int64_t d = 0; d < a.head_dim; d += 4) {
      (Vec::Load(a.sums[r] + d) * inverse).Store(a.sums[r] + d);
    }
  }
  return true;
}

}  // namespace

const KvF16Kernels& KvF16KernelsGet() {
  static constexpr KvF16Kernels kTable = {.attend = Attend};
  return kTable;
}

}  // namespace oort::OORT_ISA
