// SPDX-License-Identifier: MIT
// Tiles of bytes by VPDPBUSD (AVX512-VNNI, AVX-VNNI), or by VPMADDUBSW where there is none (AVX2).
// Both multiply unsigned by signed bytes. VPMADDUBSW adds two products in 16 bits: those of weights
// of up to 6 bits fit, and of 8 bits the sign moves to the other factor. Only for
// byte_tile_kernels.h.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/byte_tile_variant.h"
#if defined(OORT_UNIT_avx2_dot)
#include "layers/quantized_linear/cpu/sums_avx2.h"
#endif

namespace oort::OORT_ISA {

#if defined(OORT_UNIT_avx512_vnni)
using TileInt = __m512i;
inline constexpr int kTileMostRows = 8;
#else
using TileInt = __m256i;
inline constexpr int kTileMostRows = 4;
#endif
/// Whether there are tiles of so many rows. What tiles of eight leave over is one tile: several
/// would load the weights as often, and few rows wait for their own products.
constexpr bool HasTileOf(int rows) {
  return kTileMostRows == 8 || rows == kTileMostRows || rows == 1;
}
/// From so many rows on tiles are faster than GEMVs, which unpack weights in registers.
inline constexpr int kTileFewestRows = kMostGemvRows + 1;

#if defined(OORT_UNIT_avx2_dot)
inline constexpr bool kTileVnni = false;
#else
inline constexpr bool kTileVnni = true;
#endif
/// Whether bytes of all types of weights are multiplied alike.
inline constexpr bool kTileSameTypes = kTileVnni;
/// Whether there are tiles of two bytes of x: GEMVs do as well.
inline constexpr bool kTileTwoBytes = false;
/// How many bytes ahead packed weights are prefetched: heads are read before the lines between
/// them, and the hardware does not prefetch across such gaps.
inline constexpr int64_t kTileFetchAhead = 2048;
/// Lines hold weights of 8 bits with these bits turned, and others plus this zero: VPDPBUSD takes
/// weights without a sign.
inline constexpr int kTileTurn = kTileVnni ? -128 : 0;
inline int ZeroOfTiles(const PanelLayout& layout) {
  return layout.type == WeightType::kInt8 ? (kTileVnni ? 128 : 0) : layout.zero;
}

template <int rows>
using TileSums = TileInt[rows][kTileVectors];

/// A number of each row.
template <int rows>
struct RowLanes {
  const float* from;
  [[gnu::always_inline]] explicit RowLanes(const float* numbers) : from(numbers) {}
  template <int row>
  [[gnu::always_inline]] Vec Mul(Vec value) const {
    return value * Vec(from[row]);
  }
  template <int row>
  [[gnu::always_inline]] Vec Fma(Vec value, Vec sum) const {
    return OORT_ISA::Fma(value, Vec(from[row]), sum);
  }
};

// --- One operation each -------------------------------------------------------------------------

#if defined(OORT_UNIT_avx512_vnni)
[[gnu::always_inline]] inline TileInt AllLanes(int32_t value) { return _mm512_set1_epi32(value); }
[[gnu::always_inline]] inline TileInt LoadTile(const int8_t* from) {
  return _mm512_loadu_si512(from);
}
[[gnu::always_inline]] inline TileInt BothTiles(TileInt first, TileInt fine) {
  return _mm512_add_epi32(fine, _mm512_mullo_epi32(first, AllLanes(kFineSteps)));
}
#else
[[gnu::always_inline]] inline TileInt AllLanes(int32_t value) { return _mm256_set1_epi32(value); }
[[gnu::always_inline]] inline TileInt LoadTile(const int8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::always_inline]] inline TileInt BothTiles(TileInt first, TileInt fine) {
  return _mm256_add_epi32(fine, _mm256_mullo_epi32(first, AllLanes(kFineSteps)));
}
#endif

struct [[gnu::packed, gnu::may_alias]] TileFour {
  int32_t bytes;
};

/// sums += the products of a line with four bytes of each row.
template <typename V>
[[gnu::always_inline]] inline void AddLine(const int8_t* line, const TileFour* x,
                                           TileSums<V::rows>& sums) {
  constexpr int kFours = V::piece / 4;
#if defined(OORT_UNIT_avx512_vnni)
  const TileInt w = LoadTile(line);
  // VPDPBUSD repeats four bytes of memory in all lanes by itself, which GCC 12 does not know.
  Unroll<V::rows>([&](auto r) __attribute__((always_inline)) {
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums[r][0]) : "v"(w), "m"(x[r * kFours]));
  });
#elif defined(OORT_UNIT_avx_vnni)
  const TileInt w[2] = {LoadTile(line), LoadTile(line + 32)};
  Unroll<V::rows>([&](auto r) __attribute__((always_inline)) {
    const TileInt four = AllLanes(x[r * kFours].bytes);
    sums[r][0] = _mm256_dpbusd_avx_epi32(sums[r][0], w[0], four);
    sums[r][1] = _mm256_dpbusd_avx_epi32(sums[r][1], w[1], four);
  });
#else
  const __m256i ones = _mm256_set1_epi16(1);
  Unroll<2>([&](auto c) __attribute__((always_inline)) {
    const TileInt w = LoadTile(line + 32 * c), size = _mm256_abs_epi8(w);
    Unroll<V::rows>([&](auto r) __attribute__((always_inline)) {
      const TileInt four = _mm256_sign_epi8(AllLanes(x[r * kFours].bytes), w);
      sums[r][c] =
          _mm256_add_epi32(sums[r][c], _mm256_madd_epi16(_mm256_maddubs_epi16(size, four), ones));
    });
  });
#endif
}

#if defined(OORT_UNIT_avx2_dot)
/// The same of all lines of a piece of weights without a sign, of which only sums of some lines are
/// widened. Both vectors of weights meet a row before the next one, so that its bytes are repeated
/// once.
template <typename V>
[[gnu::always_inline]] inline void AddShortLines(const int8_t* lines, const TileFour* x,
                                                 TileSums<V::rows>& sums) {
  constexpr int kFours = V::piece / 4, kTogether = kShortLines<V::type, V::piece>;
  Unroll<kFours / kTogether>([&](auto part) __attribute__((always_inline)) {
    TileSums<V::rows> pairs;
    Unroll<kTogether>([&](auto j) __attribute__((always_inline)) {
      constexpr int kLine = part * kTogether + j;
      const TileInt w[2] = {LoadTile(lines + 64 * kLine), LoadTile(lines + 64 * kLine + 32)};
      Unroll<V::rows>([&](auto r) __attribute__((always_inline)) {
        const TileInt four = AllLanes(x[r * kFours + kLine].bytes);
        Unroll<2>([&](auto c) __attribute__((always_inline)) {
          const TileInt here = _mm256_maddubs_epi16(w[c], four);
          pairs[r][c] = j == 0 ? here : AddInOrder(pairs[r][c], here);
        });
      });
    });
    ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
      sums[r][c] = AddProducts(sums[r][c], pairs[r][c]);
    });
  });
}
#endif

// --- Pieces -------------------------------------------------------------------------------------

/// sums += the products of a piece. `x` has the bytes of the rows one behind the other.
template <typename V>
[[gnu::always_inline]] inline void AddTile(const int8_t* lines, const int8_t* x,
                                           TileSums<V::rows>& sums) {
  const TileFour* fours = reinterpret_cast<const TileFour*>(x);
#if defined(OORT_UNIT_avx2_dot)
  if constexpr (V::type != WeightType::kInt8) return AddShortLines<V>(lines, fours, sums);
#endif
  Unroll<V::piece / 4>([&](auto i) __attribute__((always_inline)) {
    AddLine<V>(lines + 64 * i, fours + i, sums);
  });
}

/// What sums begin with, so that weights count from their zero.
template <typename V>
[[gnu::always_inline]] inline void StartTile(const ByteNumbers& numbers, int64_t at, int zero,
                                             TileSums<V::rows>& sums) {
  ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
    sums[r][c] = AllLanes(StartOfProducts(zero, numbers.sum[at + r]));
  });
}

/// The products of a piece where some rows have a second byte.
template <typename V>
[[gnu::noinline]] void FineTile(const int8_t* lines, const ByteRows& x, const ByteNumbers& numbers,
                                int64_t at, int zero, TileFloats<V::rows>& products) {
  TileSums<V::rows> first, fine, start;
  ForTile<V::rows>([&](auto r, auto c)
                       __attribute__((always_inline)) { first[r][c] = AllLanes(0); });
  AddTile<V>(lines, x.q + at * V::piece, first);
  StartTile<V>(numbers, at, zero, start);
  StartTile<V>(numbers, at, zero, fine);
  AddTile<V>(lines, x.fine + at * V::piece, fine);
  ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
    const IntVec alone = IntVec(start[r][c]) + IntVec(first[r][c]);
    const IntVec both(BothTiles(first[r][c], fine[r][c]));
    products[r][c] = ToFloat(x.is_fine[at + r] != 0 ? both : alone);
  });
}

/// The products of a piece of all rows, not yet scaled.
template <typename V>
[[gnu::always_inline]] inline void PieceProducts(const int8_t* lines, const ByteRows& x,
                                                 const ByteNumbers& numbers, int64_t at, int zero,
                                                 TileFloats<V::rows>& products) {
  static_assert(!V::two_bytes);
  uint64_t any_fine = 0;
  std::memcpy(&any_fine, x.is_fine + at, V::rows);
  if (any_fine != 0) [[unlikely]] {
    return FineTile<typename V::Plain>(lines, x, numbers, at, zero, products);
  }
  TileSums<V::rows> sums;
  StartTile<V>(numbers, at, zero, sums);
  AddTile<V>(lines, x.q + at * V::piece, sums);
  ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
    products[r][c] = ToFloat(IntVec(sums[r][c]));
  });
}

}  // namespace oort::OORT_ISA
