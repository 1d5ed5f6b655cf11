// SPDX-License-Identifier: MIT
// What a GGUF would say of a tokenizer that came as a tokenizer.json or a sentencepiece model.
#pragma once

#include <cstdint>
#include <string_view>

#include "oort/tokenizer.h"
#include "parser/checkpoint/tokenizer_source.h"

namespace oort::tokenizer {

/// A vocabulary of `count` tokens, as many as there are embeddings. It is held against the
/// tokenizer itself on a text with all that tokenizers differ in: throws kUnsupported where no
/// vocabulary of a GGUF gives the same tokens, kNotFound where there is no tokenizer.
VocabularySpec GgufSpecOf(const TokenizerSource& source, std::string_view architecture,
                          int64_t count);

}  // namespace oort::tokenizer
