// SPDX-License-Identifier: MIT
// Short runs of floats: what a row of a window reads where images have few channels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace oort {

/// By fours, of which the last overlaps the one before.
template <int run>
inline void CopyRunOf(const float* from, float* to) {
  static_assert(run >= 4);
  constexpr size_t kFour = 4 * sizeof(float);
  for (int i = 0; i + 4 <= run; i += 4) std::memcpy(to + i, from + i, kFour);
  std::memcpy(to + run - 4, from + run - 4, kFour);
}

/// The kernels of 3 x 3 and 7 x 7 over three channels, with which networks begin, need no call.
inline void CopyRun(const float* from, int64_t run, float* to) {
  if (run == 9) return CopyRunOf<9>(from, to);
  if (run == 21) return CopyRunOf<21>(from, to);
  std::copy_n(from, run, to);
}

}  // namespace oort
