// SPDX-License-Identifier: MIT
// A causal decoder that pnnx traced, made into one that keeps keys and values between steps.
#pragma once

#include "oort/graph.h"

namespace oort {

struct TracedDecoder {
  Graph graph;  ///< with the inputs and the output that BuildDecoder gives its graphs
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  int64_t traced_tokens = 0;  ///< the length that was traced
  int64_t positions = 0;    ///< rows of the shortest table of positions; 0: none limits the length
  bool has_window = false;  ///< whether some layer sees only the last tokens
};

/// `traced` has one input, the tokens (1,T) of one sequence, and one output, logits (1,T,V). Masks
/// are checked to be causal, rotary tables become their frequencies, and every operator is known to
/// treat each token alone; anything else is an Error (kUnsupported) that names the operator.
TracedDecoder MakeDecoder(const Graph& traced);

}  // namespace oort
