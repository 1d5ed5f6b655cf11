// SPDX-License-Identifier: MIT
// What a GGUF says of a language model that came in another format, in llama.cpp's words.
#pragma once

#include <string>
#include <vector>

#include "oort/tokenizer.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/rotary.h"
#include "parser/gguf/gguf_writer.h"

namespace oort::gguf {

/// general.architecture of a model of that family. Throws kUnsupported for a family of which no
/// GGUF is written.
std::string ArchitectureOf(const DecoderConfig& config);

/// A tensor that belongs to the rotary embedding and not to the weights.
struct RotaryTensor {
  std::string name;
  std::vector<float> values;
};

/// Adds all hyperparameters, and returns the tensors that say the rest of the rotary embedding.
/// Throws kUnsupported for what no key can say, or what llama.cpp would compute otherwise.
std::vector<RotaryTensor> DescribeModel(const DecoderConfig& config, const RotarySource& rotary,
                                        Writer& writer);
void DescribeTokenizer(const VocabularySpec& spec, const std::vector<int32_t>& end_tokens,
                       const std::vector<NamedTemplate>& templates, Writer& writer);

}  // namespace oort::gguf
