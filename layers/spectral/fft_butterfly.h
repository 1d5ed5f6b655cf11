// SPDX-License-Identifier: MIT
// Transforms of 2, 3, 4, 5, 8 and any odd number of complex vectors. Only for *.simd.cpp files.
#pragma once

#include "cpu/vec.h"
#include "layers/spectral/fft_kernels.h"

namespace oort::OORT_ISA {

#if defined(OORT_ISA_scalar)
typedef double DoubleLanes;
#else
typedef double DoubleLanes __attribute__((vector_size(16)));  // what every instruction set has
#endif

/// f64 lanes.
struct DoubleVec {
  using Raw = DoubleLanes;
  static constexpr int kWidth = sizeof(Raw) / sizeof(double);
  Raw v;
  DoubleVec() = default;
  DoubleVec(Raw value) : v(value) {}  // NOLINT: implicit, as in Vec
  static DoubleVec Zero() { return Raw{}; }
  static DoubleVec Broadcast(double value) { return Raw{} + value; }
  static DoubleVec Load(const double* p) {
    Raw raw;
    __builtin_memcpy(&raw, p, sizeof(raw));
    return raw;
  }
  static DoubleVec LoadPartial(const double* p, int n) {
    Raw raw{};
    __builtin_memcpy(&raw, p, sizeof(double) * static_cast<size_t>(n < kWidth ? n : kWidth));
    return raw;
  }
  void Store(double* p) const { __builtin_memcpy(p, &v, sizeof(v)); }
};
inline DoubleVec operator+(DoubleVec a, DoubleVec b) { return a.v + b.v; }
inline DoubleVec operator-(DoubleVec a, DoubleVec b) { return a.v - b.v; }
inline DoubleVec operator*(DoubleVec a, DoubleVec b) { return a.v * b.v; }
inline DoubleVec operator-(DoubleVec a) { return -a.v; }
inline DoubleVec Fma(DoubleVec a, DoubleVec b, DoubleVec c) { return a.v * b.v + c.v; }
inline DoubleVec Fnma(DoubleVec a, DoubleVec b, DoubleVec c) { return c.v - a.v * b.v; }

/// Complex numbers, one a lane.
template <typename V>
struct ComplexVec {
  V re, im;
};
template <typename V>
inline ComplexVec<V> operator+(ComplexVec<V> a, ComplexVec<V> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename V>
inline ComplexVec<V> operator-(ComplexVec<V> a, ComplexVec<V> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename V>
inline ComplexVec<V> operator*(ComplexVec<V> a, ComplexVec<V> b) {
  return {Fnma(a.im, b.im, a.re * b.re), Fma(a.re, b.im, a.im * b.re)};
}
/// a + s b, a - s b with a real s.
template <typename V>
inline ComplexVec<V> AddScaled(ComplexVec<V> a, V s, ComplexVec<V> b) {
  return {Fma(s, b.re, a.re), Fma(s, b.im, a.im)};
}
/// -i a: a quarter turn, the direction of the forward transform.
template <typename V>
inline ComplexVec<V> Quarter(ComplexVec<V> a) {
  return {a.im, -a.re};
}
template <typename V>
inline ComplexVec<V> Conjugate(ComplexVec<V> a) {
  return {a.re, -a.im};
}

template <typename V, typename T>
inline ComplexVec<V> LoadComplex(const T* p) {
  return {V::Load(p), V::Load(p + V::kWidth)};
}
template <typename V, typename T>
inline void StoreComplex(ComplexVec<V> a, T* p) {
  a.re.Store(p);
  a.im.Store(p + V::kWidth);
}
/// The pair at p in all lanes.
template <typename V, typename T>
inline ComplexVec<V> SpreadComplex(const T* p) {
  return {V::Broadcast(p[0]), V::Broadcast(p[1])};
}

template <typename V, typename T>
inline void Butterfly2(ComplexVec<V>* x) {
  const ComplexVec<V> a = x[0], b = x[1];
  x[0] = a + b;
  x[1] = a - b;
}

template <typename V, typename T>
inline void Butterfly3(ComplexVec<V>* x) {
  const V sine = V::Broadcast(static_cast<T>(0.86602540378443864676));
  const ComplexVec<V> sum = x[1] + x[2], turned = Quarter(x[1] - x[2]);
  const ComplexVec<V> mid = AddScaled(x[0], V::Broadcast(T(-0.5)), sum);
  x[0] = x[0] + sum;
  x[1] = AddScaled(mid, sine, turned);
  x[2] = AddScaled(mid, -sine, turned);
}

template <typename V, typename T>
inline void Butterfly4(ComplexVec<V>* x) {
  const ComplexVec<V> a = x[0] + x[2], b = x[0] - x[2];
  const ComplexVec<V> c = x[1] + x[3], d = Quarter(x[1] - x[3]);
  x[0] = a + c;
  x[1] = b + d;
  x[2] = a - c;
  x[3] = b - d;
}

template <typename V, typename T>
inline void Butterfly5(ComplexVec<V>* x) {
  const V c1 = V::Broadcast(static_cast<T>(0.30901699437494742410));
  const V c2 = V::Broadcast(static_cast<T>(-0.80901699437494742410));
  const V s1 = V::Broadcast(static_cast<T>(0.95105651629515357212));
  const V s2 = V::Broadcast(static_cast<T>(0.58778525229247312917));
  const ComplexVec<V> p = x[1] + x[4], q = x[2] + x[3];
  const ComplexVec<V> r = Quarter(x[1] - x[4]), s = Quarter(x[2] - x[3]);
  const ComplexVec<V> a = AddScaled(AddScaled(x[0], c1, p), c2, q);
  const ComplexVec<V> b = AddScaled(AddScaled(x[0], c2, p), c1, q);
  const ComplexVec<V> c = {Fma(s1, r.re, s2 * s.re), Fma(s1, r.im, s2 * s.im)};
  const ComplexVec<V> d = {Fnma(s1, s.re, s2 * r.re), Fnma(s1, s.im, s2 * r.im)};
  x[0] = x[0] + p + q;
  x[1] = a + c;
  x[4] = a - c;
  x[2] = b + d;
  x[3] = b - d;
}

template <typename V, typename T>
inline void Butterfly8(ComplexVec<V>* x) {
  const V root = V::Broadcast(static_cast<T>(0.70710678118654752440));
  ComplexVec<V> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
  Butterfly4<V, T>(even);
  Butterfly4<V, T>(odd);
  // Eighths of a turn: (1 - i) / √2 and (-1 - i) / √2.
  odd[1] = {root * (odd[1].re + odd[1].im), root * (odd[1].im - odd[1].re)};
  odd[2] = Quarter(odd[2]);
  odd[3] = {root * (odd[3].im - odd[3].re), -root * (odd[3].re + odd[3].im)};
  for (int k = 0; k < 4; ++k) {
    x[k] = even[k] + odd[k];
    x[k + 4] = even[k] - odd[k];
  }
}

/// An odd number of elements. Those that lie opposite (k and radix-k) share their products;
/// `roots` are the cosines and sines of k/radix turns.
template <typename V, typename T>
inline void ButterflyOdd(ComplexVec<V>* x, int radix, const T* roots) {
  constexpr int kMaxPairs = kFftMaxRadix / 2;
  const int pairs = radix / 2;
  ComplexVec<V> sum[kMaxPairs], turned[kMaxPairs];
  const ComplexVec<V> first = x[0];
  for (int k = 0; k < pairs; ++k) {
    sum[k] = x[k + 1] + x[radix - 1 - k];
    turned[k] = Quarter(x[k + 1] - x[radix - 1 - k]);
    x[0] = x[0] + sum[k];
  }
  for (int q = 1; q <= pairs; ++q) {
    ComplexVec<V> a = first, b = {V::Zero(), V::Zero()};
    int at = 0;
    for (int k = 0; k < pairs; ++k) {
      at = at + q < radix ? at + q : at + q - radix;
      a = AddScaled(a, V::Broadcast(roots[2 * at]), sum[k]);
      b = AddScaled(b, V::Broadcast(roots[2 * at + 1]), turned[k]);
    }
    x[q] = a + b;
    x[radix - q] = a - b;
  }
}

}  // namespace oort::OORT_ISA
