// SPDX-License-Identifier: MIT
// The layers of a decoder that one of several ranks computes, one rank behind the other.
#pragma once

#include <cstdint>

#include "oort/graph.h"

namespace oort {

struct PipelineOptions {
  int rank = 0, ranks = 1;
  int64_t hidden = 0, vocabulary = 0;
};

/// Leaves the layers of this rank, of about as many bytes of weights as others have. Each rank
/// hands the numbers between two layers to the next one, and the last hands logits and tokens to
/// the first: the same operators in the same order, so the bits of one rank. Gives how many layers
/// of the cache this rank has, which count from 0 there. Throws kUnsupported where the ranks are
/// more than the layers.
int64_t CutLayers(Graph& graph, const PipelineOptions& options);

}  // namespace oort
