// SPDX-License-Identifier: MIT
#pragma once

#include "oort/testing.h"

namespace oort::testing {

/// Integers, and what is made of them by the same operations, are the same bits everywhere.
inline constexpr Tolerance kBitExact{0, 0};

}  // namespace oort::testing
