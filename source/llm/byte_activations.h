// SPDX-License-Identifier: MIT
// Products of bytes on a GPU, where LanguageModelOptions::activations asks for them.
#pragma once

#include "oort/graph.h"
#include "oort/language_model.h"

namespace oort {

/// Throws kUnsupported where the device has no such products, and kInvalidArgument for an unknown
/// name, or with `exact`.
void CheckActivations(const LanguageModelOptions& options);

/// Has products of the layers be of bytes: all but the head's, and those whose operators say their
/// precision themselves. Returns how many bytes of weights a step reads less by it. Throws
/// kUnsupported where no product of the model can be.
int64_t SetActivations(Graph& graph, const std::string& activations, int64_t vocabulary);

}  // namespace oort
