// SPDX-License-Identifier: MIT
// What kernels of the GPU take at most, for passes that make operators for them.
#pragma once

#include <cstdint>

namespace oort {

/// Widest heads of attention.
inline constexpr int64_t kDeviceAttentionWidth = 256;

}  // namespace oort
