// SPDX-License-Identifier: MIT
// Winograd's F(2 x 2, 3 x 3) of bytes on AVX2, whose products take numbers of 16 bits anyway: 16
// products of channels make four outputs that would have taken 36. Only for integer.dot.cpp.
#pragma once

#include "layers/quantize/integer_finish_avx2.h"

namespace oort::OORT_ISA {
namespace {

/// Sixteen bytes as s16.
inline __m256i Widen(const std::byte* bytes, bool is_signed) {
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return is_signed ? _mm256_cvtepi8_epi16(sixteen) : _mm256_cvtepu8_epi16(sixteen);
}

/// Sixteen channels of one tile. Numbers of a byte become four times as large at most.
inline void TransformTile(const std::byte* const* pixels, int64_t channel, bool is_signed,
                          int16_t* to, int64_t step) {
  __m256i rows[4][4];
  Unroll<4>([&](auto y) {
    __m256i x[4];
    Unroll<4>([&](auto i) { x[i] = Widen(pixels[y * 4 + i] + channel, is_signed); });
    rows[y][0] = _mm256_sub_epi16(x[0], x[2]);
    rows[y][1] = _mm256_add_epi16(x[1], x[2]);
    rows[y][2] = _mm256_sub_epi16(x[2], x[1]);
    rows[y][3] = _mm256_sub_epi16(x[1], x[3]);
  });
  Unroll<4>([&](auto i) {
    const auto store = [&](int y, __m256i values) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (y * 4 + i) * step), values);
    };
    store(0, _mm256_sub_epi16(rows[0][i], rows[2][i]));
    store(1, _mm256_add_epi16(rows[1][i], rows[2][i]));
    store(2, _mm256_sub_epi16(rows[2][i], rows[1][i]));
    store(3, _mm256_sub_epi16(rows[1][i], rows[3][i]));
  });
}

void TransformTiles(const IntegerWinograd& call) {
  const IntegerWinograd job = call;
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    for (int64_t c = 0; c < job.depth; c += kWinogradDepth) {
      TransformTile(job.pixels + tile * kWinogradPoints, c, job.is_signed,
                    job.transformed + tile * job.depth + c, job.tiles * job.depth);
    }
  }
}

/// One point of `rows` tiles times `vectors` vectors of filters.
template <int rows, int vectors>
void PointTile(const int16_t* x, const int16_t* w, int64_t depth, int32_t* products) {
  __m256i sums[rows][vectors];
  Unroll<rows>(
      [&](auto r) { Unroll<vectors>([&](auto v) { sums[r][v] = _mm256_setzero_si256(); }); });
  for (int64_t k = 0; k < depth; k += 2, w += vectors * 16) {
    __m256i weights[vectors];
    Unroll<vectors>([&](auto v) {
      weights[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + v * 16));
    });
    Unroll<rows>([&](auto r) {
      const __m256i pair =
          Avx2Lanes::Broadcast(reinterpret_cast<const std::byte*>(x + r * depth + k));
      Unroll<vectors>([&](auto v) {
        sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(pair, weights[v]));
      });
    });
  }
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(products + (r * vectors + v) * 8), sums[r][v]);
    });
  });
}

/// Products of all tiles at one point.
template <int vectors>
void Point(const IntegerWinograd& job, int64_t point) {
  constexpr int kRows = 6;
  const int16_t* w = job.weights + point * job.depth * vectors * 8;
  int64_t i = 0;
  const auto tiles = [&]<int rows>() {
    const int64_t first = point * job.tiles + i;
    PointTile<rows, vectors>(job.transformed + first * job.depth, w, job.depth,
                             job.products + first * vectors * 8);
    i += rows;
  };
  while (i + kRows <= job.tiles) tiles.template operator()<kRows>();
  switch (job.tiles - i) {
    case 1: return tiles.template operator()<1>();
    case 2: return tiles.template operator()<2>();
    case 3: return tiles.template operator()<3>();
    case 4: return tiles.template operator()<4>();
    case 5: return tiles.template operator()<5>();
    default: return;
  }
}

/// Four outputs of each tile. The filters are four times as large as they should be.
template <int vectors>
void FinishTiles(const IntegerWinograd& job) {
  const Avx2Finish finish(job.epilogue);
  const int64_t step = job.tiles * vectors * 8;
  for (int64_t tile = 0; tile < job.tiles; ++tile) {
    __m256i sums[4][vectors];
    Unroll<vectors>([&](auto v) {
      const int32_t* at = job.products + (tile * vectors + v) * 8;
      __m256i upper[4], lower[4];
      Unroll<4>([&](auto i) {
        const __m256i a = Avx2Lanes::LoadSums(at + i * step);
        const __m256i b = Avx2Lanes::LoadSums(at + (4 + i) * step);
        const __m256i c = Avx2Lanes::LoadSums(at + (8 + i) * step);
        const __m256i d = Avx2Lanes::LoadSums(at + (12 + i) * step);
        upper[i] = _mm256_add_epi32(_mm256_add_epi32(a, b), c);
        lower[i] = _mm256_sub_epi32(_mm256_sub_epi32(b, c), d);
      });
      const __m256i start = Avx2Lanes::LoadSums(job.starts + v * 8);
      const auto quarter = [&](__m256i sum) {
        return _mm256_add_epi32(_mm256_srai_epi32(sum, 2), start);
      };
      const auto first = [](const __m256i(&m)[4]) {
        return _mm256_add_epi32(_mm256_add_epi32(m[0], m[1]), m[2]);
      };
      const auto second = [](const __m256i(&m)[4]) {
        return _mm256_sub_epi32(_mm256_sub_epi32(m[1], m[2]), m[3]);
      };
      sums[0][v] = quarter(first(upper));
      sums[1][v] = quarter(second(upper));
      sums[2][v] = quarter(first(lower));
      sums[3][v] = quarter(second(lower));
    });
    Unroll<4>([&](auto i) {
      const int64_t place = job.places[tile * 4 + i];
      if (place >= 0) finish.Row<vectors>(sums[i], place, 0, job.channels);
    });
  }
}

template <int vectors>
void MultiplyTiles(const IntegerWinograd& job) {
  for (int64_t point = 0; point < kWinogradPoints; ++point) Point<vectors>(job, point);
  FinishTiles<vectors>(job);
}

void MultiplyTiles(const IntegerWinograd& job) {
  if (job.channels > 8) return MultiplyTiles<2>(job);
  MultiplyTiles<1>(job);
}

}  // namespace
}  // namespace oort::OORT_ISA
