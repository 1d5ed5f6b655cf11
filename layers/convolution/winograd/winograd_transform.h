// SPDX-License-Identifier: MIT
// The one-dimensional transforms of Winograd's convolution F(m, 3) (Lavin and Gray 2016) over the
// points 0, +-p, ..., infinity, by the construction of Toom and Cook. Only for winograd.lanes.cpp.
// A pair of points +-p shares the even and the odd part of its polynomial. `d(i)` and `m(i)` load
// an element, so that only what is used is loaded.
//
//   First, Pair<g>, Last   coefficient 0; 2g+1 and 2g+2; the last one of the input
//   Even, Odd              elements 0, 2, ... and 1, 3, ... of the output
//
// WeightTransform in winograd.cpp has the factors that these forms leave to the weights.
#pragma once

#include "cpu/lanes.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

template <int i>
using Index = std::integral_constant<int, i>;

template <int form>
struct WinogradForm;

/// Stride 2: elements 0, 2 and 4 of the input by F(2,2) over the points 0, 1 and infinity, then
/// elements 1 and 3 as they are.
inline constexpr int kStridedForm = 3;
template <>
struct WinogradForm<kStridedForm> {
  static constexpr int kOut = 2, kIn = 5;
  template <typename D>
  static void All(D d, Lanes* c) {
    const Lanes middle = d(Index<2>());
    c[0] = d(Index<0>()) - middle;
    c[1] = middle;
    c[2] = d(Index<4>()) - middle;
    c[3] = d(Index<1>());
    c[4] = d(Index<3>());
  }
  template <typename M>
  static void Even(M m, Lanes* y) {
    y[0] = m(Index<0>()) + (m(Index<1>()) + m(Index<3>()));
  }
  template <typename M>
  static void Odd(M m, Lanes* y) {
    y[0] = m(Index<2>()) + (m(Index<1>()) + m(Index<4>()));
  }
};

/// Points 0, +-1.
template <>
struct WinogradForm<2> {
  static constexpr int kOut = 2, kIn = 4, kPairs = 1;
  template <typename D>
  static Lanes First(D d) {
    return d(Index<2>()) - d(Index<0>());
  }
  template <int pair, typename D>
  static void Pair(D d, Lanes& plus, Lanes& minus) {
    const Lanes even = d(Index<2>()), odd = d(Index<1>());
    plus = even + odd;
    minus = even - odd;
  }
  template <typename D>
  static Lanes Last(D d) {
    return d(Index<3>()) - d(Index<1>());
  }
  template <typename M>
  static void Even(M m, Lanes* y) {
    y[0] = m(Index<0>()) + (m(Index<1>()) + m(Index<2>()));
  }
  template <typename M>
  static void Odd(M m, Lanes* y) {
    y[0] = m(Index<3>()) + (m(Index<1>()) - m(Index<2>()));
  }
};

/// Points 0, +-sqrt(1/2), +-sqrt(2): half the error of 0, +-1, +-2.
template <>
struct WinogradForm<4> {
  static constexpr int kOut = 4, kIn = 6, kPairs = 2;
  static constexpr float kRoot = 1.41421356237309504880f, kHalfRoot = 0.70710678118654752440f;
  template <typename D>
  static Lanes First(D d) {
    return Fnma(Lanes(2.5f), d(Index<2>()), d(Index<0>()) + d(Index<4>()));
  }
  template <int pair, typename D>
  static void Pair(D d, Lanes& plus, Lanes& minus) {
    const Lanes square = Lanes(pair == 0 ? 2.0f : 0.5f);
    const Lanes even = Fnma(square, d(Index<2>()), d(Index<4>()));
    const Lanes odd = Fnma(square, d(Index<1>()), d(Index<3>()));
    if constexpr (pair == 0) {
      plus = Fma(Lanes(kHalfRoot), odd, even);
      minus = Fnma(Lanes(kHalfRoot), odd, even);
    } else {  // times sqrt(1/2)
      plus = Fma(Lanes(kHalfRoot), even, odd);
      minus = Fnma(Lanes(kHalfRoot), even, odd);  // and negated
    }
  }
  template <typename D>
  static Lanes Last(D d) {
    return Fnma(Lanes(2.5f), d(Index<3>()), d(Index<1>()) + d(Index<5>()));
  }
  template <typename M>
  static void Even(M m, Lanes* y) {
    const Lanes a = m(Index<1>()) + m(Index<2>()), b = m(Index<3>()) + m(Index<4>());
    y[0] = Fma(Lanes(kHalfRoot), b, Fma(Lanes(kRoot), a, m(Index<0>())));
    y[1] = Fma(Lanes(kRoot), b, Lanes(kHalfRoot) * a);
  }
  template <typename M>
  static void Odd(M m, Lanes* y) {
    const Lanes a = m(Index<1>()) - m(Index<2>()), b = m(Index<3>()) - m(Index<4>());
    y[0] = a + b;
    y[1] = Fma(Lanes(2.0f), b, Fma(Lanes(0.5f), a, m(Index<5>())));
  }
};

/// Points 0, +-1, +-2, +-1/2.
template <>
struct WinogradForm<6> {
  static constexpr int kOut = 6, kIn = 8, kPairs = 3;
  template <typename D>
  static Lanes First(D d) {
    return Fma(Lanes(5.25f), d(Index<2>()) - d(Index<4>()), d(Index<6>()) - d(Index<0>()));
  }
  template <int pair, typename D>
  static void Pair(D d, Lanes& plus, Lanes& minus) {
    if constexpr (pair == 0) {
      const Lanes even = Fnma(Lanes(4.25f), d(Index<4>()), d(Index<2>()) + d(Index<6>()));
      const Lanes odd = Fnma(Lanes(4.25f), d(Index<3>()), d(Index<1>()) + d(Index<5>()));
      plus = even + odd;
      minus = even - odd;
    } else {
      const Lanes square = Lanes(pair == 1 ? 0.25f : 4.0f), sum = Lanes(pair == 1 ? 1.25f : 5.0f);
      const Lanes even = Fma(square, d(Index<2>()), Fnma(sum, d(Index<4>()), d(Index<6>())));
      const Lanes odd = Fma(square, d(Index<1>()), Fnma(sum, d(Index<3>()), d(Index<5>())));
      const Lanes point = Lanes(pair == 1 ? 2.0f : 0.5f);
      plus = Fma(point, odd, even);
      minus = Fnma(point, odd, even);
    }
  }
  template <typename D>
  static Lanes Last(D d) {
    return Fma(Lanes(5.25f), d(Index<3>()) - d(Index<5>()), d(Index<7>()) - d(Index<1>()));
  }
  template <typename M>
  static void Even(M m, Lanes* y) {
    const Lanes a = m(Index<1>()) + m(Index<2>()), b = m(Index<3>()) + m(Index<4>()),
                c = m(Index<5>()) + m(Index<6>());
    y[0] = (m(Index<0>()) + a) + (b + c);
    y[1] = Fma(Lanes(4.0f), b, Fma(Lanes(0.25f), c, a));
    y[2] = Fma(Lanes(16.0f), b, Fma(Lanes(0.0625f), c, a));
  }
  template <typename M>
  static void Odd(M m, Lanes* y) {
    const Lanes a = m(Index<1>()) - m(Index<2>()), b = m(Index<3>()) - m(Index<4>()),
                c = m(Index<5>()) - m(Index<6>());
    y[0] = Fma(Lanes(2.0f), b, Fma(Lanes(0.5f), c, a));
    y[1] = Fma(Lanes(8.0f), b, Fma(Lanes(0.125f), c, a));
    y[2] = Fma(Lanes(32.0f), b, Fma(Lanes(0.03125f), c, m(Index<7>()) + a));
  }
};

}  // namespace oort::OORT_ISA
