// SPDX-License-Identifier: MIT
// Elements of keys and values of all types. Only for *.simd.cpp and *.bf16.cpp.
#pragma once

#include <cstring>

#include "cpu/vec.h"
#include "layers/attention/paged/cpu/kv_load_k6v4.h"
#include "layers/quantized_linear/cpu/quantized_scales.h"
#include "oort/kv_cache.h"

namespace oort::OORT_ISA {

inline constexpr int kTokens = static_cast<int>(KvCache::kBlockTokens);

/// Vec::kWidth elements from element `index` on.
template <KvType type>
[[gnu::always_inline]] inline Vec LoadKv(const std::byte* p, int64_t index) {
  static_assert(type == KvType::kF32 || type == KvType::kF16 || type == KvType::kInt8);
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

/// Element d of the keys of Vec::kWidth tokens; of int8 without the tokens' scales.
template <KvType type>
[[gnu::always_inline]] inline Vec LoadKey(const std::byte* keys, int64_t head_dim, int64_t d,
                                          int token) {
  if constexpr (type == KvType::kK6V4) {
    return LoadK6(keys, K6V4Layout(head_dim), d, token);
  } else {
    return LoadKv<type>(keys, d * kTokens + token);
  }
}

/// Vec::kWidth elements of a token's values from d on, which is a multiple of that; of int8 without
/// its scale.
template <KvType type>
[[gnu::always_inline]] inline Vec LoadValue(const std::byte* values, int64_t head_dim,
                                            int64_t token, int64_t d) {
  if constexpr (type == KvType::kK6V4) {
    return LoadV4(values, K6V4Layout(head_dim), token, d);
  } else {
    return LoadKv<type>(values, token * head_dim + d);
  }
}

/// The scales of tokens in 8 bits, which stand behind the elements.
inline const std::byte* ScalesOf(const std::byte* side, int64_t head_dim) {
  return side + head_dim * kTokens;
}

}  // namespace oort::OORT_ISA
