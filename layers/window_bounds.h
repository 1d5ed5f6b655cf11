// SPDX-License-Identifier: MIT
// Bounds on the numbers of windows that slide over an axis. All families with a stride, a padding
// or a dilation hold them here, so that no kernel can overflow where it computes a position.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "oort/error.h"

namespace oort {

/// Strides, paddings, dilations and kernels stay below 2^31: with an extent of at most
/// kMaxWindowExtent, i * stride - pad + j * dilation is far from the ends of 64 bits.
inline void CheckWindowNumber(std::string_view what, int64_t value, int64_t least) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (value >= least && value <= kMost) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " " + std::to_string(value) +
                                               " is not in [" + std::to_string(least) + ", " +
                                               std::to_string(kMost) + "]");
}

inline constexpr int64_t kMaxWindowExtent = int64_t{1} << 48;

/// Throws unless an axis with its padding can be indexed by windows.
inline void CheckWindowExtent(int64_t extent) {
  if (extent <= kMaxWindowExtent) return;
  throw Error(ErrorCode::kInvalidArgument,
              "expected an axis of at most 2^48 elements with its padding, got " +
                  std::to_string(extent) + ": positions in it overflow");
}

}  // namespace oort
