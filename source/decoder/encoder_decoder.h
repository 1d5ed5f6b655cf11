// SPDX-License-Identifier: MIT
// The graphs of an encoder-decoder.
#pragma once

#include <string_view>
#include <vector>

#include "decoder/shard_plan.h"
#include "oort/graph.h"
#include "parser/huggingface/encoder_decoder.h"

namespace oort {

///   encoder: tokens, [positions], [bias (1,heads,tokens,tokens)]
///     -> for each layer of the decoder keys and values (1,heads,tokens,head_dim) of the text
///   decoder: as of other language models (DecoderGraph), with an EncodedText for each sequence
struct EncoderDecoderGraphs {
  Graph encoder, decoder;
};

/// The biases of buckets of distances, a row of heads for each (T5); empty where there are none.
/// `stack` is one of the names of encoder and decoder.
std::vector<float> BucketBiases(const EncoderDecoderFiles& files, std::string_view stack);

/// Throws kInvalidModel where tensors are missing, or have no place or another shape.
EncoderDecoderGraphs BuildEncoderDecoder(const EncoderDecoderFiles& files);

/// Leaves of the keys and values that an encoder gives those of some heads. What is in front of
/// them stays whole.
void TakeTextHeads(Graph& encoder, const AxisRange& heads);

}  // namespace oort
