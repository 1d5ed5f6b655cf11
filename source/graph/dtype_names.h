// SPDX-License-Identifier: MIT
#pragma once

#include "oort/value.h"

namespace oort {

/// "torch.float", "torch.int8", …, our own names, or the number that torch gives a dtype in
/// leftover aten:: operators. kNull if it is none.
DType ParseTorchDType(const Value& value);
/// The same, but throws kInvalidArgument if it is none: an operand may hold anything.
DType RequireTorchDType(const Value& value);

}  // namespace oort
