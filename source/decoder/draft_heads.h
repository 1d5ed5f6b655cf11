// SPDX-License-Identifier: MIT
// The graph of heads that guess later tokens from what the model's own head reads.
#pragma once

#include "oort/graph.h"
#include "parser/huggingface/draft_heads.h"

namespace oort {

/// Input: rows of `hidden` numbers, f32; output i: the logits that head i makes of them. Throws
/// kInvalidModel where tensors are missing or have another shape, so that the heads are those of
/// another model, and kUnsupported where one has no place.
Graph BuildDraftHeads(const DraftHeadsFiles& files, int64_t hidden, int64_t vocabulary);

/// A third output of a decoder that has logits and argmax: what its head reads. Throws
/// kUnsupported where logits are not made by one product.
void AddHidden(Graph& graph);

}  // namespace oort
