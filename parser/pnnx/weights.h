// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "core/problems.h"
#include "oort/pnnx.h"

namespace oort::pnnx {

/// Gives every attribute of `graph` its elements from `bin`. What is wrong goes to `problems`.
/// Allocates at most the size of `bin`: no entry serves two attributes.
void LoadWeights(const std::shared_ptr<const ByteSource>& bin, const ReadOptions& options,
                 Graph& graph, ProblemList& problems);

/// Throws kCancelled when the caller has asked for it.
void CheckStop(const std::stop_token& stop);

}  // namespace oort::pnnx
