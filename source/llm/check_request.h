// SPDX-License-Identifier: MIT
#pragma once

#include "oort/engine.h"

namespace oort {

/// Throws kInvalidArgument for a request that makes no sense to a model of so many tokens, kLimit
/// for one that would take more than any should.
void CheckRequest(const GenerateRequest& request, int64_t vocabulary);

}  // namespace oort
