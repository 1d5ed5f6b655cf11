// SPDX-License-Identifier: MIT
// The graph of a decoder-only transformer, from what its checkpoint says.
#pragma once

#include <span>

#include "decoder/decoder_graph.h"
#include "parser/adapter/adapter.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {

/// One graph for prompts and for single tokens, for one sequence and for many. Inputs: the tokens
/// of a step (tokens), the position of each in its sequence (tokens), and the rows whose logits are
/// wanted. Output: their logits (rows, vocabulary). Weights stay where the checkpoint has them.
/// Adapters change products for the sequences that name them (SequenceSlice::adapter); throws
/// kInvalidModel where one is for another model. With `pictures`, rows of pictures may stand in the
/// places of tokens (SequenceBatch::pictures).
DecoderGraph BuildDecoder(const Checkpoint& checkpoint, std::span<const LoraAdapter> adapters = {},
                          bool pictures = false);

}  // namespace oort
