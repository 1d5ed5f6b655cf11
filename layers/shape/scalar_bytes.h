// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>

#include "oort/value.h"

namespace oort {

/// One element of `dtype` with the value of a number (or of a tensor of one element), converted as
/// torch converts scalars. Only the first ItemSize(dtype) bytes count.
std::array<std::byte, 16> ScalarBytes(const Value& value, DType dtype);

}  // namespace oort
