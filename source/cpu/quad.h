// SPDX-License-Identifier: MIT
// Four floats, whatever the width of the vector type: for transposing, with sums and differences
// (compilers have them for their own types). Only for *.simd.cpp.
#pragma once

#if defined(OORT_ISA_neon)
#include <arm_neon.h>
#elif defined(OORT_ISA_avx2) || defined(OORT_ISA_avx512)
#include <immintrin.h>
#endif

namespace oort::OORT_ISA {

#if defined(OORT_ISA_neon)

using Quad = float32x4_t;
inline Quad LoadQuad(const float* p) { return vld1q_f32(p); }
inline void StoreQuad(Quad q, float* p) { vst1q_f32(p, q); }
inline void StorePair(Quad q, float* p) { vst1_f32(p, vget_low_f32(q)); }
template <int i>
inline void StoreOne(Quad q, float* p) {
  vst1q_lane_f32(p, q, i);
}

/// Element i of q[j] becomes element j of q[i].
inline void Transpose(Quad (&q)[4]) {
  const Quad low01 = vzip1q_f32(q[0], q[2]), high01 = vzip2q_f32(q[0], q[2]);
  const Quad low23 = vzip1q_f32(q[1], q[3]), high23 = vzip2q_f32(q[1], q[3]);
  q[0] = vzip1q_f32(low01, low23);
  q[1] = vzip2q_f32(low01, low23);
  q[2] = vzip1q_f32(high01, high23);
  q[3] = vzip2q_f32(high01, high23);
}

#elif defined(OORT_ISA_avx2) || defined(OORT_ISA_avx512)

using Quad = __m128;
inline Quad LoadQuad(const float* p) { return _mm_loadu_ps(p); }
inline void StoreQuad(Quad q, float* p) { _mm_storeu_ps(p, q); }
inline void StorePair(Quad q, float* p) { _mm_storel_pi(reinterpret_cast<__m64*>(p), q); }
template <int i>
inline void StoreOne(Quad q, float* p) {
  _mm_store_ss(p, _mm_shuffle_ps(q, q, i));
}
inline void Transpose(Quad (&q)[4]) { _MM_TRANSPOSE4_PS(q[0], q[1], q[2], q[3]); }

#else

struct Quad {
  float v[4];
};
inline Quad LoadQuad(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
inline Quad operator+(Quad a, Quad b) {
  for (int i = 0; i < 4; ++i) a.v[i] += b.v[i];
  return a;
}
inline Quad operator-(Quad a, Quad b) {
  for (int i = 0; i < 4; ++i) a.v[i] -= b.v[i];
  return a;
}
inline void StoreQuad(Quad q, float* p) {
  for (int i = 0; i < 4; ++i) p[i] = q.v[i];
}
inline void StorePair(Quad q, float* p) {
  for (int i = 0; i < 2; ++i) p[i] = q.v[i];
}
template <int i>
inline void StoreOne(Quad q, float* p) {
  *p = q.v[i];
}
inline void Transpose(Quad (&q)[4]) {
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i; ++j) {
      const float kept = q[i].v[j];
      q[i].v[j] = q[j].v[i];
      q[j].v[i] = kept;
    }
  }
}

#endif

/// The first `count` elements, 1 to 4.
template <int count>
inline void StoreFirst(Quad q, float* p) {
  if constexpr (count == 4) return StoreQuad(q, p);
  if constexpr (count >= 2) StorePair(q, p);
  if constexpr (count % 2 == 1) StoreOne<count - 1>(q, p + count - 1);
}

}  // namespace oort::OORT_ISA
