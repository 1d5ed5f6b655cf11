// SPDX-License-Identifier: MIT
// What a graph takes beside weights and activations: operators, names, parameters, layers, plans.
#pragma once

#include <cstddef>

#include "runtime/runtime_impl.h"

namespace oort {

/// Bytes of the heap, by walking over it all; of what layers own no more than an estimate.
size_t StructureBytes(const RuntimeImpl& graph);
/// Those of a plan and of the session that runs it.
size_t StructureBytes(const RuntimeImpl& graph, const ExecutionPlan& plan);

}  // namespace oort
