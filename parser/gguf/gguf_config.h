// SPDX-License-Identifier: MIT
#pragma once

#include "parser/checkpoint/decoder_config.h"
#include "parser/checkpoint/tensor_table.h"
#include "parser/gguf/gguf.h"

namespace oort::gguf {

/// Tensors of a GGUF that hold no weights, but factors of the rotary embedding.
struct RotaryFactors {
  std::vector<float> frequencies;  ///< rope_freqs.weight
  std::vector<float> long_factors, short_factors;
};

/// All of the config but what the tensors decide: vocabulary and tied_head.
DecoderConfig ReadConfig(const Metadata& metadata, const RotaryFactors& factors);

}  // namespace oort::gguf
