// SPDX-License-Identifier: MIT
// Elements of keys and values of all types. Only for *.simd.cpp and *.bf16.cpp.
#pragma once

#include <cstring>

#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/quantized_scales.h"
#include "oort/kv_cache.h"

namespace oort::OORT_ISA {

inline constexpr int kTokens = static_cast<int>(KvCache::kBlockTokens);

/// Vec::kWidth elements from element `index` on.
template <KvType type>
[[gnu::always_inline]] inline Vec LoadKv(const std::byte* p, int64_t index) {
  if constexpr (type == KvType::kF32) {
    return LoadFloat(p + 4 * index, 0);
  } else if constexpr (type == KvType::kF16) {
    return LoadHalf(p + 2 * index, 0);
  } else {
#if defined(OORT_ISA_neon)
    int32_t four;
    std::memcpy(&four, p + index, 4);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return Vec(vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes)))));
#elif defined(OORT_ISA_avx512)
    return Vec(_mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + index)))));
#elif defined(OORT_ISA_avx2)
    return Vec(_mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + index)))));
#else
    return Vec(static_cast<float>(static_cast<int8_t>(p[index])));
#endif
  }
}

/// The scales of tokens in 8 bits, which stand behind the elements.
inline const std::byte* ScalesOf(const std::byte* side, int64_t head_dim) {
  return side + head_dim * kTokens;
}

}  // namespace oort::OORT_ISA
