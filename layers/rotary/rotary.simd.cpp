// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "layers/rotary/rotary_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// Turns one pair.
inline void TurnPair(float a, float b, float cosine, float sine, float* first, float* second) {
  *first = a * cosine - b * sine;
  *second = b * cosine + a * sine;
}

void TurnHalves(const float* in, float* out, const float* cosines, const float* sines,
                int64_t pairs) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= pairs; i += Vec::kWidth) {
    const Vec a = Vec::Load(in + i), b = Vec::Load(in + pairs + i);
    const Vec cosine = Vec::Load(cosines + i), sine = Vec::Load(sines + i);
    Fnma(b, sine, a * cosine).Store(out + i);
    Fma(a, sine, b * cosine).Store(out + pairs + i);
  }
  for (; i < pairs; ++i) {
    TurnPair(in[i], in[pairs + i], cosines[i], sines[i], out + i, out + pairs + i);
  }
}

/// As many as vectors can take; returns how many.
inline int64_t TurnVectors([[maybe_unused]] const float* in, [[maybe_unused]] float* out,
                           [[maybe_unused]] const float* cosines,
                           [[maybe_unused]] const float* sines, [[maybe_unused]] int64_t pairs) {
  int64_t i = 0;
#if defined(OORT_ISA_neon)
  for (; i + 4 <= pairs; i += 4) {
    const float32x4x2_t x = vld2q_f32(in + 2 * i);
    const float32x4_t cosine = vld1q_f32(cosines + i), sine = vld1q_f32(sines + i);
    const float32x4x2_t turned = {{vfmsq_f32(vmulq_f32(x.val[0], cosine), x.val[1], sine),
                                   vfmaq_f32(vmulq_f32(x.val[1], cosine), x.val[0], sine)}};
    vst2q_f32(out + 2 * i, turned);
  }
#elif defined(OORT_ISA_avx512)
  const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  const auto both = [&](const float* p) {
    return _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  };
  for (; i + 8 <= pairs; i += 8) {
    const __m512 x = _mm512_loadu_ps(in + 2 * i);
    const __m512 other = _mm512_mul_ps(_mm512_permute_ps(x, 0xb1), both(sines + i));
    _mm512_storeu_ps(out + 2 * i, _mm512_fmaddsub_ps(x, both(cosines + i), other));
  }
#elif defined(OORT_ISA_avx2)
  const __m256i twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
  const auto both = [&](const float* p) {
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), twice);
  };
  for (; i + 4 <= pairs; i += 4) {
    const __m256 x = _mm256_loadu_ps(in + 2 * i);
    const __m256 other = _mm256_mul_ps(_mm256_permute_ps(x, 0xb1), both(sines + i));
    _mm256_storeu_ps(out + 2 * i, _mm256_fmaddsub_ps(x, both(cosines + i), other));
  }
#endif
  return i;
}

void TurnNeighbours(const float* in, float* out, const float* cosines, const float* sines,
                    int64_t pairs) {
  for (int64_t i = TurnVectors(in, out, cosines, sines, pairs); i < pairs; ++i) {
    TurnPair(in[2 * i], in[2 * i + 1], cosines[i], sines[i], out + 2 * i, out + 2 * i + 1);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(RotaryKernels,
                    {.halves = OORT_ISA::TurnHalves, .neighbours = OORT_ISA::TurnNeighbours})
