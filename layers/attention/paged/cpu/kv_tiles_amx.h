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

/// Queries are scaled here, so that scores need not be.
void RoundQueries(const KvTiles& a, uint16_t* to) {
  const __m512 factor = _mm512_set1_ps(ScoreFactor(a));
  for (int row = 0; row < a.rows; ++row) {
    for (int64_t d = 0; d < a.head_dim; d += 16, to += 16) {
      const __m512 query = _mm512_mul_ps(_mm512_loadu_ps(a.query[row] + d), factor);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), RoundVector(query));
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
    const Vec element = LoadKv<type>(keys, d * kTokens);
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
    const Vec element = LoadKv<type>(values, t * head_dim + d);
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

static_assert(kStepBlocks == 8);
void TileScores(const uint16_t* query, const uint16_t* keys, int64_t head_dim, int blocks,
                float* scores) {
  switch (blocks) {
    case 1: return TileScores<1>(query, keys, head_dim, scores);
    case 2: return TileScores<2>(query, keys, head_dim, scores);
    case 3: return TileScores<3>(query, keys, head_dim, scores);
    default: return TileScores<4>(query, keys, head_dim, scores);
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
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 y = _mm512_fmadd_ps(f, _mm512_set1_ps(0.0134266866f), _mm512_set1_ps(0.0522424715f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.241280206f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.693044845f));
  y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(y, x);  // which takes the floor of x
}

/// Which of the 16 tokens from `token` on a row sees.
inline __mmask16 Seen(const KvTiles& a, int row, int64_t token) {
  const auto within = [](int64_t i) { return static_cast<unsigned>(i < 0 ? 0 : i > 16 ? 16 : i); };
  const unsigned from = within(a.first[row] - token), to = within(a.last[row] + 1 - token);
  return static_cast<__mmask16>((0xffffu << from) & ((1u << to) - 1u));
}

/// One step of the online softmax: turns the scores of a row into weights and rescales what was
/// summed so far to the new maximum. Maxima are kept as exponents of 2. `seen` gives the tokens of
/// a block that the row sees.
template <typename Seen>
[[gnu::always_inline]] inline void WeighRow(KvTiles& a, int row, int count, const float* scores,
                                            uint16_t* weights, float* sums, const Seen& seen) {
  __m512 score[kStepBlocks];
  __m512 largest = _mm512_set1_ps(kMasked);
  for (int i = 0; i < count; ++i) {
    score[i] = _mm512_loadu_ps(scores + i * kTokens);
    if (a.softcap > 0) {
      score[i] = (Tanh(Vec(score[i]) / Vec(a.softcap)) * Vec(a.softcap * kLog2E)).v;
    }
    largest = _mm512_mask_max_ps(largest, seen(i), largest, score[i]);
  }
  RaiseMax(a, row, _mm512_reduce_max_ps(largest), sums);
  const __m512 max = _mm512_set1_ps(a.max[row]);
  __m512 total = _mm512_setzero_ps();
  const auto weigh = [&](int i) __attribute__((always_inline)) {
    const __m512 weight = _mm512_maskz_mov_ps(seen(i), PowerOf2(_mm512_sub_ps(score[i], max)));
    total = _mm512_add_ps(total, weight);
    return weight;
  };
  for (int i = 0; i < count; i += kBlocksAtOnce) {
    const __m512 first = weigh(i), second = i + 1 < count ? weigh(i + 1) : _mm512_setzero_ps();
    _mm512_storeu_si512(weights + i * kTokens,
                        __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(second, first)));
  }
  a.weight[row] += _mm512_reduce_add_ps(total);
}

/// The same, of a row that may see a part of the tokens.
void WeighPart(KvTiles& a, int row, int64_t token, int count, const float* scores,
               uint16_t* weights, float* sums) {
  __mmask16 seen[kStepBlocks];
  for (int i = 0; i < count; ++i) seen[i] = Seen(a, row, token + i * kTokens);
  WeighRow(a, row, count, scores, weights, sums, [&](int i) { return seen[i]; });
}

/// `between(part)` is called for part 0 and 1, so that tiles are multiplied meanwhile.
template <typename Between>
void WeighRows(KvTiles& a, int row, int64_t token, int count, const float* scores,
               uint16_t* weights, float* sums, FetchNextStep& fetch, const Between& between) {
  const int64_t end = token + kStepTokens;
  for (int r = 0; r < kTileRows; ++r) {
    if (r % (kTileRows / 2) == 0) between(r / (kTileRows / 2));
    const int at = row + r;
    if (at >= a.rows) continue;
    fetch();
    if (count == kStepBlocks && a.softcap == 0 && a.first[at] <= token && a.last[at] + 1 >= end) {
      WeighRow(a, at, kStepBlocks, scores, weights, sums, [](int) -> __mmask16 { return 0xffff; });
    } else {
      WeighPart(a, at, token, count, scores, weights, sums);
    }
    scores += kStepTokens;
    weights += kStepTokens;
    sums += a.head_dim;
  }
}

/// All rows over the tokens of some blocks. The scores of a tile of rows are multiplied while the
/// vector units weigh those of the tile before.
void AttendStep(KvTiles& a, int64_t block, int count, const TileBuffers& buffers,
                FetchNextStep& fetch) {
  constexpr int kHalf = kStepBlocks / 2;
  const auto seen = [&](int row) { return SeenBlocks(a, row, kTileRows, block, count); };
  const auto scores_of = [&](int row) {
    return buffers.scores + row % static_cast<int>(KvTiles::kScoreRows) * kStepTokens;
  };
  const auto multiply = [&](int row, int part) {
    if (row >= a.rows) return;
    const int first = part * kHalf, blocks = std::min(seen(row) - first, kHalf);
    if (blocks <= 0) return;
    TileScores(buffers.query + row * a.head_dim, buffers.keys + first * a.head_dim * kTokens,
               a.head_dim, blocks, scores_of(row) + first * kTokens);
  };
  for (const int part : {0, 1}) multiply(0, part);
  for (int row = 0; row < a.rows; row += kTileRows) {
    const auto next = [&](int part) { multiply(row + kTileRows, part); };
    const int blocks = seen(row);
    if (blocks == 0) {
      for (const int part : {0, 1}) next(part);
      continue;
    }
    WeighRows(a, row, block * kTokens, blocks, scores_of(row), buffers.weights + row * kStepTokens,
              buffers.sums + row * a.head_dim, fetch, next);
  }
  for (int row = 0; row < a.rows; row += kTileRows) {
    StepValues(buffers.weights + row * kStepTokens, buffers.values, a.head_dim, seen(row) * kTokens,
               buffers.sums + row * a.head_dim);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
