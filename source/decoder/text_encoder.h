// SPDX-License-Identifier: MIT
// The graph of an encoder of text.
#pragma once

#include <vector>

#include "oort/graph.h"
#include "parser/huggingface/text_encoder.h"

namespace oort {

/// What a graph takes, in this order, as far as its family has it. Texts are padded to one length.
enum class TextInput : unsigned char {
  kTokens,     ///< i64 (texts, tokens)
  kMask,       ///< f32 (texts, 1, 1, tokens): added to scores
  kPositions,  ///< i64 (texts, tokens)
  kTypes,      ///< i64 (texts, tokens)
  kBuckets,    ///< i64 (tokens, tokens): of query and key, into which of them their distance falls
  kNear,       ///< f32 (1, 1, tokens, tokens): added to scores of local layers
  kShares,     ///< f32 (texts, 1, tokens): how much each token counts in the mean
};

struct TextEncoderGraph {
  Graph graph;
  std::vector<TextInput> inputs;
};

/// Gives hidden states (texts, tokens, hidden); with a head what that says of each text, (texts,
/// labels). Throws kInvalidModel where tensors are missing or have another shape, kUnsupported
/// where one has no place.
TextEncoderGraph BuildTextEncoder(const TextEncoderFiles& files, bool with_head);

}  // namespace oort
