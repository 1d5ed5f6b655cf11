// SPDX-License-Identifier: MIT
// The graphs of an encoder-decoder.
#pragma once

#include "oort/graph.h"
#include "parser/huggingface/encoder_decoder.h"

namespace oort {

/// Both graphs share the protocol of Whisper's networks: keys and values go in and come out.
///   encoder: tokens, [positions], [bias (1,heads,tokens,tokens)]
///     -> for each layer of the decoder keys and values (1,heads,tokens,head_dim) of the text
///   decoder: tokens, [positions], mask (1,1 or heads,tokens,room+tokens), for each layer keys and
///     values so far (1,heads,room,head_dim), for each layer what the encoder gave
///     -> logits, for each layer keys and values of these tokens
struct EncoderDecoderGraphs {
  Graph encoder, decoder;
};

/// Throws kInvalidModel where tensors are missing, or have no place or another shape.
EncoderDecoderGraphs BuildEncoderDecoder(const EncoderDecoderFiles& files);

}  // namespace oort
