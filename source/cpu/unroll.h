// SPDX-License-Identifier: MIT
// Loops that are unrolled by templates, not by the optimizer's choice, so that arrays that are
// indexed only by constants stay in registers. Include it only from *.simd.cpp files.
#pragma once

#include <type_traits>
#include <utility>

namespace oort::OORT_ISA {

template <typename Body, int... i>
[[gnu::always_inline]] inline void UnrollOver(std::integer_sequence<int, i...>,
                                              [[maybe_unused]] Body body) {
  (body(std::integral_constant<int, i>{}), ...);
}

/// body(0), body(1), … body(count-1), each index a compile-time constant:
/// Unroll<4>([&](auto i) { constexpr int index = i; … });
template <int count, typename Body>
[[gnu::always_inline]] inline void Unroll(Body body) {
  UnrollOver(std::make_integer_sequence<int, count>{}, body);
}

/// Hides the origin of a number or a pointer from the compiler. Otherwise it keeps one pointer for
/// each of the many places that a tile touches, and runs out of registers.
template <typename T>
[[gnu::always_inline]] inline void Forget(T& value) {
  asm("" : "+r"(value));
}

}  // namespace oort::OORT_ISA
