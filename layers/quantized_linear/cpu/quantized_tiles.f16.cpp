// SPDX-License-Identifier: MIT
// Prefill products with quantized weights on AMX in f16. It has three bits more than bf16, and
// takes half the instructions to dequantize, because a register holds 32 numbers. Of four steps of
// k the pairs are (0, 2) and (1, 3), because a mask extracts them in that order from a line of
// weights; x is packed in the same order.
#include "layers/quantized_linear/cpu/quantized_tiles.h"

#if defined(OORT_UNIT_avx512_f16)
#include "layers/quantized_linear/cpu/quantized_tile_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// scale * (q - zero) + minimum of 16 rows, each of them twice.
struct HalfNumbers {
  __m512h zero, scale, minimum;
};

inline __m512h Twice(__m512 numbers) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m512i once = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(numbers, kNearest));
  return _mm512_castsi512_ph(_mm512_or_si512(once, _mm512_slli_epi32(once, 16)));
}

/// The bits of `mask` in the mantissas of f16 numbers that begin with `power`: power + q.
inline __m512i HalvesOf(__m512i bits, int32_t mask, int32_t power, const HalfNumbers& numbers) {
  constexpr int kMaskedOr = 0xea;  // (a & b) | c
  const __m512i q =
      _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(mask), _mm512_set1_epi32(power), kMaskedOr);
  const __m512h exact = _mm512_sub_ph(_mm512_castsi512_ph(q), numbers.zero);
  return _mm512_castph_si512(_mm512_fmadd_ph(exact, numbers.scale, numbers.minimum));
}

struct HalfWeights {
  using Products = F16Products;
  using Numbers = HalfNumbers;
  static constexpr float kNibblePower = 16, kBytePower = 1024;

  template <WeightType type>
  [[gnu::always_inline]] static Numbers NumbersOf(__m512 scale, __m512 minimum, int zero) {
    const float power = type == WeightType::kInt4 ? kNibblePower : kBytePower + 128;
    const __m512h all = _mm512_set1_ph(static_cast<_Float16>(power + static_cast<float>(zero)));
    return {all, Twice(scale), Twice(minimum)};
  }

  [[gnu::always_inline]] static void UnpackLowNibbles(const std::byte* line, const Numbers& numbers,
                                                      uint16_t* to, int64_t step) {
    const __m512i w = _mm512_loadu_si512(line);
    StoreNibbles(_mm512_slli_epi32(w, 6), numbers, to);
    StoreNibbles(_mm512_srli_epi32(w, 2), numbers, to + step);
  }
  [[gnu::always_inline]] static void UnpackHighNibbles(const std::byte* line,
                                                       const Numbers& numbers, uint16_t* to,
                                                       int64_t step) {
    const __m512i w = _mm512_loadu_si512(line);
    StoreNibbles(_mm512_slli_epi32(w, 2), numbers, to);
    StoreNibbles(_mm512_srli_epi32(w, 6), numbers, to + step);
  }
  [[gnu::always_inline]] static void UnpackFirstBytes(const std::byte* line, const Numbers& numbers,
                                                      uint16_t* to) {
    StoreBytes(MovedBytes(line), numbers, to);
  }
  [[gnu::always_inline]] static void UnpackLastBytes(const std::byte* line, const Numbers& numbers,
                                                     uint16_t* to) {
    StoreBytes(_mm512_srli_epi32(MovedBytes(line), 8), numbers, to);
  }

 private:
  /// 16 is 0x4c00, and its upper four bits of mantissa count by 1.
  [[gnu::always_inline]] static void StoreNibbles(__m512i bits, const Numbers& numbers,
                                                  uint16_t* to) {
    _mm512_storeu_si512(to, HalvesOf(bits, 0x03c003c0, 0x4c004c00, numbers));
  }
  /// 1024 is 0x6400, and its last bit is 1.
  [[gnu::always_inline]] static void StoreBytes(__m512i bits, const Numbers& numbers,
                                                uint16_t* to) {
    _mm512_storeu_si512(to, HalvesOf(bits, 0x00ff00ff, 0x64006400, numbers));
  }
  [[gnu::always_inline]] static __m512i MovedBytes(const std::byte* line) {
    return _mm512_xor_si512(_mm512_loadu_si512(line), _mm512_set1_epi8(-128));
  }
};

/// 32 steps of a row, of which those beyond `count` are zeros; takes note of the largest.
inline __m512i PackSteps(const float* x, int64_t count, __m512& largest) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  constexpr int kOrder = _MM_SHUFFLE(3, 1, 2, 0);
  const uint32_t mask = count >= 32 ? ~0u : (1u << count) - 1u;
  const auto half = [&](int from) {
    const __m512 values = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> from), x + from);
    // Magnitudes have the same order as their bits read as unsigned integers, with NaN at the end.
    largest = _mm512_castsi512_ps(_mm512_max_epu32(
        _mm512_castps_si512(largest),
        _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(0x7fffffff))));
    return _mm512_cvtps_ph(_mm512_permute_ps(values, kOrder), kNearest);
  };
  const __m256i low = half(0);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), half(16), 1);
}

/// Whether f16 represents a row at least as precisely as bf16 does.
inline bool FitsHalves(__m512 largest) {
  constexpr uint32_t kMost = 0x47000000, kLeast = 0x39000000;  // 2^15, 2^-13
  const uint32_t most = _mm512_reduce_max_epu32(_mm512_castps_si512(largest));
  return most == 0 || (most >= kLeast && most < kMost);
}

void PackRows(const TileRows& rows) {
  constexpr int64_t kStep = kTilePanelRows * kTileSteps;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    uint16_t* const first = static_cast<uint16_t*>(rows.a) +
                            row / kTilePanelRows * kTilePanelRows * rows.padded +
                            row % kTilePanelRows * kTileSteps;
    const bool real = row < rows.count;
    __m512 largest = _mm512_setzero_ps();
    uint16_t* to = first;
    for (int64_t k = 0; k < rows.padded; k += kTileSteps, to += kStep) {
      const __m512i steps = real ? PackSteps(rows.x + row * rows.x_stride + k, rows.k - k, largest)
                                 : _mm512_setzero_si512();
      _mm512_storeu_si512(to, steps);
    }
    if (!real) continue;
    rows.fits[row] = FitsHalves(largest);
    if (rows.fits[row]) continue;
    to = first;
    for (int64_t k = 0; k < rows.padded; k += kTileSteps, to += kStep) {
      _mm512_storeu_si512(to, _mm512_setzero_si512());
    }
  }
}

}  // namespace

const QuantizedTileKernels& QuantizedTileKernelsGet() {
  static constexpr QuantizedTileKernels kTable = {.begin = BeginTiles,
                                                  .end = EndTiles,
                                                  .multiply = MultiplyPiece<HalfWeights>,
                                                  .pack = PackRows};
  return kTable;
}

}  // namespace oort::OORT_ISA
#endif
