// SPDX-License-Identifier: MIT
// Writes new keys and values into the cache. Keys are transposed within a block: the same element
// of all its tokens stands side by side, so that a vector of scores is a vector of tokens.
#include <cstring>

#include "cpu/quad.h"
#include "cpu/vec.h"
#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/cpu/kv_load.h"
#include "layers/attention/paged/cpu/kv_write_k6v4.h"
#include "oort/dtype.h"

namespace oort::OORT_ISA {
namespace {

inline float LargestOf(const float* x, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = __builtin_fabsf(x[i]) > most ? __builtin_fabsf(x[i]) : most;
  return most;
}

constexpr int64_t kHalves = 64;  // that are rounded at a time

/// Rounds to f16, ties to even.
inline void ToHalves(const float* x, int64_t count, uint16_t* halves) {
  int64_t i = 0;
#if defined(OORT_ISA_neon)
  for (; i + 4 <= count; i += 4) {
    vst1_u16(halves + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
  }
#elif defined(OORT_ISA_avx512) || defined(OORT_ISA_avx2)
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; ++i) halves[i] = FloatToHalf(x[i]);
}

inline void StoreQuadHalves(Quad four, uint16_t* to) {
#if defined(OORT_ISA_neon)
  vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(four)));
#elif defined(OORT_ISA_avx512) || defined(OORT_ISA_avx2)
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_cvtps_ph(four, _MM_FROUND_TO_NEAREST_INT));
#else
  ToHalves(four.v, 4, to);
#endif
}

/// Quantizes the elements of a token, which are written `stride` apart. The scale of the token
/// stands behind all elements.
void WriteSide(KvType type, const float* x, int64_t count, int64_t slot, int64_t first,
               int64_t stride, std::byte* side) {
  if (type == KvType::kInt8) {
    const EightBits bits(LargestOf(x, count));
    std::memcpy(side + count * kTokens + 4 * slot, &bits.scale, 4);
    for (int64_t i = 0; i < count; ++i) side[first + i * stride] = bits.Of(x[i]);
  } else if (type == KvType::kF16) {
    for (int64_t i = 0; i < count; i += kHalves) {
      uint16_t halves[kHalves];
      const int64_t some = count - i < kHalves ? count - i : kHalves;
      ToHalves(x + i, some, halves);
      for (int64_t j = 0; j < some; ++j) {
        std::memcpy(side + 2 * (first + (i + j) * stride), halves + j, 2);
      }
    }
  } else {
    for (int64_t i = 0; i < count; ++i) std::memcpy(side + 4 * (first + i * stride), x + i, 4);
  }
}

template <KvType type>
inline void StoreFour(Quad four, std::byte* to) {
  if constexpr (type == KvType::kF32) {
    StoreQuad(four, reinterpret_cast<float*>(to));
  } else {
    StoreQuadHalves(four, reinterpret_cast<uint16_t*>(to));
  }
}

/// Transposes the keys of four tokens, four elements of each at a time.
template <KvType type>
void WriteFourKeys(const KvTokens& tokens, int64_t first) {
  constexpr int64_t kBytes = type == KvType::kF32 ? 4 : 2;
  const float* from = tokens.keys + first * tokens.stride;
  const int64_t slot = tokens.slot + first;
  int64_t d = 0;
  for (; d + 4 <= tokens.head_dim; d += 4) {
    Quad square[4];
    for (int t = 0; t < 4; ++t) square[t] = LoadQuad(from + t * tokens.stride + d);
    Transpose(square);
    for (int i = 0; i < 4; ++i) {
      StoreFour<type>(square[i], tokens.to_keys + kBytes * ((d + i) * kTokens + slot));
    }
  }
  for (; d < tokens.head_dim; ++d) {
    float element[4];
    for (int t = 0; t < 4; ++t) element[t] = from[t * tokens.stride + d];
    StoreFour<type>(LoadQuad(element), tokens.to_keys + kBytes * (d * kTokens + slot));
  }
}

/// Returns how many tokens' keys were written.
int64_t WriteFours(const KvTokens& tokens) {
  if (tokens.type == KvType::kInt8) return 0;
  int64_t done = 0;
  for (; done + 4 <= tokens.count; done += 4) {
    if (tokens.type == KvType::kF32) {
      WriteFourKeys<KvType::kF32>(tokens, done);
    } else {
      WriteFourKeys<KvType::kF16>(tokens, done);
    }
  }
  return done;
}

void Write(const KvTokens& tokens) {
  const int64_t head_dim = tokens.head_dim;
  if (tokens.type == KvType::kK6V4) {
    for (int64_t t = 0; t < tokens.count; ++t) {
      WriteK6(tokens.keys + t * tokens.stride, head_dim, tokens.slot + t, tokens.to_keys);
      WriteV4(tokens.values + t * tokens.stride, head_dim, tokens.slot + t, tokens.to_values);
    }
    return;
  }
  for (int64_t t = WriteFours(tokens); t < tokens.count; ++t) {
    const int64_t slot = tokens.slot + t;
    WriteSide(tokens.type, tokens.keys + t * tokens.stride, head_dim, slot, slot, kTokens,
              tokens.to_keys);
  }
  for (int64_t t = 0; t < tokens.count; ++t) {
    const int64_t slot = tokens.slot + t;
    WriteSide(tokens.type, tokens.values + t * tokens.stride, head_dim, slot, slot * head_dim, 1,
              tokens.to_values);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(KvWriteKernels, {.write = OORT_ISA::Write})
