// SPDX-License-Identifier: MIT
// The graph of a decoder-only transformer, from what its checkpoint says.
#pragma once

#include "decoder/decoder_graph.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {

/// One graph for prompts and for single tokens, for one sequence and for many. Inputs: the tokens
/// of a step (tokens), the position of each in its sequence (tokens), and the rows whose logits are
/// wanted. Output: their logits (rows, vocabulary). Weights stay where the checkpoint has them.
DecoderGraph BuildDecoder(const Checkpoint& checkpoint);

}  // namespace oort
