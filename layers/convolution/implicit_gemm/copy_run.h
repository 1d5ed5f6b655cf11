// SPDX-License-Identifier: MIT
// Short runs of elements: what a row of a window reads where images have few channels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace oort {

/// By sixteen bytes, of which the last overlap those before.
template <int run, typename T>
inline void CopyRunOf(const T* from, T* to) {
  constexpr int kPart = 16 / sizeof(T);
  static_assert(run >= kPart);
  for (int i = 0; i + kPart <= run; i += kPart) std::memcpy(to + i, from + i, 16);
  std::memcpy(to + run - kPart, from + run - kPart, 16);
}

/// The kernels of 3 x 3 and 7 x 7 over three channels, with which networks begin, need no call.
template <typename T>
inline void CopyRun(const T* from, int64_t run, T* to) {
  if (run == 9) return CopyRunOf<9>(from, to);
  if (run == 21) return CopyRunOf<21>(from, to);
  std::copy_n(from, run, to);
}

}  // namespace oort
