// SPDX-License-Identifier: MIT
// Prefill attention on AMX: tiles of 16 rows, with pairs of steps side by side. Only for
// kv_tiles.bf16.cpp.
#pragma once

#include "cpu/gemm_bf16_amx.h"

#include "cpu/vec_math.h"
#include "layers/attention/paged/cpu/kv_tiles.h"
#include "layers/quantized_linear/cpu/quantized_pairs_avx512.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kTileRows = 16;
constexpr int kBlocksAtOnce = 2;  // of values: 32 steps are a tile
static_assert(kTokens == kTileRows);

inline __m512i RoundUpper(Vec value) {
  return _mm512_add_epi32(Bits(value).v, _mm512_set1_epi32(0x8000));
}

void RoundQueries(const KvTiles& a, uint16_t* to) {
  for (int row = 0; row < a.rows; ++row) {
    for (int64_t d = 0; d < a.head_dim; d += 16, to += 16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          RoundVector(_mm512_loadu_ps(a.query[row] + d)));
    }
  }
  const int64_t rest = (kKvTileRows - a.rows) * a.head_dim;
  std::memset(to, 0, static_cast<size_t>(rest) * sizeof(uint16_t));
}

template <KvType type>
void RoundKeys(const std::byte* keys, int64_t head_dim, uint16_t* to) {
  Vec scale(1.0f);
  if constexpr (type == KvType::kInt8) scale = LoadFloat(ScalesOf(keys, head_dim), 0);
  const auto at = [&](int64_t d) {
    const Vec element = LoadKey<type>(keys, head_dim, d, 0);
    return RoundUpper(type == KvType::kInt8 ? element * scale : element);
  };
  for (int64_t d = 0; d < head_dim; d += 2, to += 2 * kTokens) StorePair(at(d), at(d + 1), to);
}

/// Only the first `tokens` tokens are read. The others become zeros, because their slots hold stale
/// data.
template <KvType type>
void RoundValues(const std::byte* values, int64_t head_dim, int64_t tokens, uint16_t* to) {
  const auto at = [&](int64_t t, int64_t d) {
    if (t >= tokens) return _mm512_setzero_si512();
    const Vec element = LoadValue<type>(values, head_dim, t, d);
    if constexpr (type != KvType::kInt8) return RoundUpper(element);
    float scale;
    std::memcpy(&scale, ScalesOf(values, head_dim) + 4 * t, 4);
    return RoundUpper(element * Vec(scale));
  };
  for (int64_t t = 0; t < kTokens; t += 2) {
    for (int64_t d = 0; d < head_dim; d += 16, to += 32) StorePair(at(t, d), at(t + 1, d), to);
  }
}

/// scores[row][token] of 16 rows and `blocks` blocks of keys.
template <int blocks>
void TileScores(const uint16_t* query, const uint16_t* keys, int64_t head_dim, float* scores) {
  constexpr int64_t kStride = kStepTokens * sizeof(float);
  const int64_t block = head_dim * kTokens;
  _tile_zero(0);
  if constexpr (blocks > 1) _tile_zero(1);
  if constexpr (blocks > 2) _tile_zero(2);
  if constexpr (blocks > 3) _tile_zero(3);
  for (int64_t d = 0; d < head_dim; d += 32, query += 32, keys += 32 * kTokens) {
    _tile_loadd(4, query, head_dim * 2);
    _tile_loadd(5, keys, 64);
    _tile_dpbf16ps(0, 4, 5);
    if constexpr (blocks > 1) {
      _tile_loadd(6, keys + block, 64);
      _tile_dpbf16ps(1, 4, 6);
    }
    if constexpr (blocks > 2) {
      _tile_loadd(5, keys + 2 * block, 64);
      _tile_dpbf16ps(2, 4, 5);
    }
    if constexpr (blocks > 3) {
      _tile_loadd(6, keys + 3 * block, 64);
      _tile_dpbf16ps(3, 4, 6);
    }
  }
  _tile_stored(0, scores, kStride);
  if constexpr (blocks > 1) _tile_stored(1, scores + kTokens, kStride);
  if constexpr (blocks > 2) _tile_stored(2, scores + 2 * kTokens, kStride);
  if constexpr (blocks > 3) _tile_stored(3, scores + 3 * kTokens, kStride);
}

void StepScores(const uint16_t* query, const uint16_t* keys, int64_t head_dim, int count,
                float* scores) {
  for (int i = 0; i < count; i += 4, keys += 4 * head_dim * kTokens, scores += 4 * kTokens) {
    switch (count - i) {
      case 1: TileScores<1>(query, keys, head_dim, scores); break;
      case 2: TileScores<2>(query, keys, head_dim, scores); break;
      case 3: TileScores<3>(query, keys, head_dim, scores); break;
      default: TileScores<4>(query, keys, head_dim, scores);
    }
  }
}

/// Adds the weighted values of `pairs` pairs of tokens to 16 rows of `tiles` * 16 sums.
template <int tiles>
void TileValues(const uint16_t* weights, const uint16_t* values, int64_t head_dim, int64_t tokens,
                float* sums) {
  const int64_t stride = head_dim * 4;  // of pairs of values, and of sums
  _tile_loadd(0, sums, stride);
  _tile_loadd(1, sums + 16, stride);
  if constexpr (tiles > 2) _tile_loadd(2, sums + 32, stride);
  if constexpr (tiles > 2) _tile_loadd(3, sums + 48, stride);
  for (int64_t t = 0; t < tokens; t += 32, weights += 32, values += 32 * head_dim) {
    _tile_loadd(4, weights, kStepTokens * 2);
    _tile_loadd(5, values, stride);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, values + 32, stride);
    _tile_dpbf16ps(1, 4, 6);
    if constexpr (tiles > 2) {
      _tile_loadd(5, values + 64, stride);
      _tile_dpbf16ps(2, 4, 5);
      _tile_loadd(6, values + 96, stride);
      _tile_dpbf16ps(3, 4, 6);
    }
  }
  _tile_stored(0, sums, stride);
  _tile_stored(1, sums + 16, stride);
  if constexpr (tiles > 2) _tile_stored(2, sums + 32, stride);
  if constexpr (tiles > 2) _tile_stored(3, sums + 48, stride);
}

void StepValues(const uint16_t* weights, const uint16_t* values, int64_t head_dim, int64_t tokens,
                float* sums) {
  int64_t d = 0;
  for (; d + 64 <= head_dim; d += 64) {
    TileValues<4>(weights, values + 2 * d, head_dim, tokens, sums + d);
  }
  if (d < head_dim) TileValues<2>(weights, values + 2 * d, head_dim, tokens, sums + d);
}

/// 2^x for x <= 0, to 18 bits.
inline __m512 PowerOf2(__m512 x) {
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, whole);
  __m512 y = _mm512_fmadd_ps(f, _mm512_set1_ps(0.00133335581f), _mm512_set1_ps(0.00961812911f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.0555041087f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.240226507f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.693147181f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(y, whole);
}

/// Which of the 16 tokens from `token` on a row sees.
inline __mmask16 Seen(const KvTiles& a, int row, int64_t token) {
  const auto within = [](int64_t i) { return static_cast<unsigned>(i < 0 ? 0 : i > 16 ? 16 : i); };
  const unsigned from = within(a.first[row] - token), to = within(a.last[row] + 1 - token);
  return static_cast<__mmask16>((0xffffu << from) & ((1u << to) - 1u));
}

/// One step of the online softmax: turns the scores of a row into weights and rescales what was
/// summed so far to the new maximum. Maxima are kept as exponents of 2.
void WeighRow(KvTiles& a, int row, int64_t token, int count, const float* scores, uint16_t* weights,
              float* sums) {
  __m512 score[kStepBlocks];
  __mmask16 seen[kStepBlocks];
  __m512 largest = _mm512_set1_ps(kMasked);
  const __m512 scale = _mm512_set1_ps(ScoreFactor(a));
  for (int i = 0; i < count; ++i) {
    seen[i] = Seen(a, row, token + i * kTokens);
    score[i] = _mm512_mul_ps(_mm512_loadu_ps(scores + i * kTokens), scale);
    if (a.softcap > 0) {
      const Vec capped = Tanh(Vec(score[i]) / Vec(a.softcap)) * Vec(a.softcap * kLog2E);
      score[i] = capped.v;
    }
    largest = _mm512_mask_max_ps(largest, seen[i], largest, score[i]);
  }
  RaiseMax(a, row, _mm512_reduce_max_ps(largest), sums);
  const __m512 max = _mm512_set1_ps(a.max[row]);
  __m512 total = _mm512_setzero_ps();
  for (int i = 0; i < count; ++i) {
    const __m512 weight = _mm512_maskz_mov_ps(seen[i], PowerOf2(_mm512_sub_ps(score[i], max)));
    total = _mm512_add_ps(total, weight);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + i * kTokens), RoundVector(weight));
  }
  if (count % 2 != 0) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + count * kTokens),
                        _mm256_setzero_si256());
  }
  a.weight[row] += _mm512_reduce_add_ps(total);
}

void WeighRows(KvTiles& a, int row, int64_t token, int count, const float* scores,
               uint16_t* weights, float* sums) {
  for (int r = 0; r < kTileRows && row + r < a.rows; ++r) {
    WeighRow(a, row + r, token, count, scores + r * kStepTokens, weights + r * kStepTokens,
             sums + r * a.head_dim);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
