// SPDX-License-Identifier: MIT
// Prefill attention by BFMMLA: tiles of eight rows by eight columns, with four steps side by side.
// Only for kv_tiles.bf16.cpp.
#pragma once

#include <cstring>

#include "cpu/bf16_fours_neon.h"
#include "layers/attention/paged/cpu/kv_tiles.h"
#include "layers/attention/paged/cpu/kv_weigh_neon.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kTileRows = 8, kTileColumns = 8;
constexpr int kBlocksAtOnce = 1;  // of values

void BeginTiles() {}
void EndTiles() {}

/// Writes (head_dim / 4, kTileRows, 4) for each tile. Queries are scaled here, so that scores need
/// not be.
void RoundQueries(const KvTiles& a, uint16_t* to) {
  const float32x4_t factor = vdupq_n_f32(ScoreFactor(a));
  for (int first = 0; first < a.rows; first += kTileRows, to += kTileRows * a.head_dim) {
    for (int r = 0; r < kTileRows; ++r) {
      for (int64_t d = 0; d < a.head_dim; d += 4) {
        const bool exists = first + r < a.rows;
        const float32x4_t query =
            exists ? vmulq_f32(vld1q_f32(a.query[first + r] + d), factor) : vdupq_n_f32(0);
        vst1_u16(to + d * kTileRows + 4 * r, ToBf16(query));
      }
    }
  }
}

/// Writes (head_dim / 4, kTokens, 4).
template <KvType type>
void RoundKeys(const std::byte* keys, int64_t head_dim, uint16_t* to) {
  const auto four = [&](int64_t d, int token) {
    const Vec element = LoadKey<type>(keys, head_dim, d, token);
    if constexpr (type != KvType::kInt8) return element.v;
    return (element * LoadFloat(ScalesOf(keys, head_dim), token)).v;
  };
  for (int64_t d = 0; d < head_dim; d += 4) {
    for (int token = 0; token < kTokens; token += 8, to += 32) {
      uint16x8_t steps[4];
      Unroll<4>([&](auto j) { steps[j] = ToBf16(four(d + j, token), four(d + j, token + 4)); });
      const EightFours eight(steps);
      Unroll<4>([&](auto i) { vst1q_u16(to + 8 * i, eight.columns[i]); });
    }
  }
}

/// Writes (kTokens / 4, head_dim, 4). Only the first `tokens` tokens are read. The others become
/// zeros, because their slots hold stale data.
template <KvType type>
void RoundValues(const std::byte* values, int64_t head_dim, int64_t tokens, uint16_t* to) {
  const auto eight_of = [&](int64_t token, int64_t d) {
    if (token >= tokens) return vdupq_n_u16(0);
    Vec scale(1.0f);
    if constexpr (type == KvType::kInt8) {
      float number;
      std::memcpy(&number, ScalesOf(values, head_dim) + 4 * token, 4);
      scale = Vec(number);
    }
    const auto four = [&](int64_t at) {
      const Vec element = LoadValue<type>(values, head_dim, token, at);
      return type == KvType::kInt8 ? (element * scale).v : element.v;
    };
    return ToBf16(four(d), four(d + 4));
  };
  for (int64_t token = 0; token < kTokens; token += 4) {
    for (int64_t d = 0; d < head_dim; d += 8, to += 32) {
      uint16x8_t steps[4];
      Unroll<4>([&](auto j) { steps[j] = eight_of(token + j, d); });
      const EightFours eight(steps);
      Unroll<4>([&](auto i) { vst1q_u16(to + 8 * i, eight.columns[i]); });
    }
  }
}

/// Sums of a tile: each register holds two rows of two columns.
struct TileOfSums {
  float32x4_t sums[4][4];

  [[gnu::always_inline]] static TileOfSums Zero() {
    TileOfSums tile;
    Unroll<4>([&](auto r) { Unroll<4>([&](auto c) { tile.sums[r][c] = vdupq_n_f32(0); }); });
    return tile;
  }
  [[gnu::always_inline]] static TileOfSums Load(const float* from, int64_t stride) {
    TileOfSums tile;
    Unroll<4>([&](auto r) {
      Unroll<2>([&](auto c) {
        const float32x4_t upper = vld1q_f32(from + 2 * r * stride + 4 * c);
        const float32x4_t lower = vld1q_f32(from + (2 * r + 1) * stride + 4 * c);
        tile.sums[r][2 * c] = First(upper, lower);
        tile.sums[r][2 * c + 1] = Second(upper, lower);
      });
    });
    return tile;
  }
  [[gnu::always_inline]] void Store(float* to, int64_t stride) const {
    Unroll<4>([&](auto r) {
      Unroll<2>([&](auto c) {
        const float32x4_t left = sums[r][2 * c], right = sums[r][2 * c + 1];
        vst1q_f32(to + 2 * r * stride + 4 * c, First(left, right));
        vst1q_f32(to + (2 * r + 1) * stride + 4 * c, Second(left, right));
      });
    });
  }
  /// Adds the products of 4 * `fours` steps. Four steps of the columns lie `stride` elements behind
  /// the four before.
  [[gnu::always_inline]] void Add(const uint16_t* rows, const uint16_t* columns, int64_t stride,
                                  int64_t fours) {
    const auto load = [](const uint16_t* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); };
    for (; fours > 0; --fours, rows += 4 * kTileRows, columns += stride) {
      bfloat16x8_t pairs[4];
      Unroll<4>([&](auto r) { pairs[r] = load(rows + 8 * r); });
      Unroll<4>([&](auto c) {
        const bfloat16x8_t pair = load(columns + 8 * c);
        Unroll<4>([&](auto r) { sums[r][c] = vbfmmlaq_f32(sums[r][c], pairs[r], pair); });
      });
    }
  }

 private:
  static float32x4_t First(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static float32x4_t Second(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
};

/// scores[row][token] of a tile of rows and `count` blocks of keys.
void StepScores(const uint16_t* query, const uint16_t* keys, int64_t head_dim, int count,
                float* scores) {
  for (int i = 0; i < count; ++i, keys += head_dim * kTokens) {
    for (int token = 0; token < kTokens; token += kTileColumns, scores += kTileColumns) {
      TileOfSums tile = TileOfSums::Zero();
      tile.Add(query, keys + 4 * token, 4 * kTokens, head_dim / 4);
      tile.Store(scores, kStepTokens);
    }
  }
}

void StepValues(const uint16_t* weights, const uint16_t* values, int64_t head_dim, int64_t tokens,
                float* sums) {
  for (int64_t d = 0; d < head_dim; d += kTileColumns) {
    TileOfSums tile = TileOfSums::Load(sums + d, head_dim);
    tile.Add(weights, values + 4 * d, 4 * head_dim, tokens / 4);
    tile.Store(sums + d, head_dim);
  }
}

/// The weights of a tile are stored in the order of RoundQueries.
void WeighRows(KvTiles& a, int row, int64_t token, int count, float* scores, uint16_t* weights,
               float* sums) {
  for (int r = 0; r < kTileRows && row + r < a.rows; ++r) {
    WeighRow(a, row + r, token, count * kTokens, scores + r * kStepTokens, sums + r * a.head_dim,
             [&](int i, Vec four) { vst1_u16(weights + i * kTileRows + 4 * r, ToBf16(four.v)); });
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
