// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "oort/schema.h"

namespace oort {

/// Holds operands that are constants and stand for parameters against the schema, as if they were
/// written as `key=value`, and binds what the schema makes of them. `constant_inputs`: one for each
/// input, deferred where it is no constant. Throws kInvalidModel that names the parameter.
void BindConstants(const OperatorSchema& schema, std::span<const Value> constant_inputs,
                   BoundArgs& bound);

}  // namespace oort
