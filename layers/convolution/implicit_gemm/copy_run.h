// SPDX-License-Identifier: MIT
// Copies of short runs of elements, which are the rows of a window where images have few channels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace oort {

/// Copies sixteen bytes at a time. The last sixteen overlap those before.
template <int run, typename T>
inline void CopyRunOf(const T* from, T* to) {
  constexpr int kPart = 16 / sizeof(T);
  static_assert(run >= kPart);
  for (int i = 0; i + kPart <= run; i += kPart) std::memcpy(to + i, from + i, 16);
  std::memcpy(to + run - kPart, from + run - kPart, 16);
}

/// Kernels of 3 x 3 and 7 x 7 over three channels, with which networks begin, are inlined.
template <typename T>
inline void CopyRun(const T* from, int64_t run, T* to) {
  if (run == 9) return CopyRunOf<9>(from, to);
  if (run == 21) return CopyRunOf<21>(from, to);
  std::copy_n(from, run, to);
}

}  // namespace oort
