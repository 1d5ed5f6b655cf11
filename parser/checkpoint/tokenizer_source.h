// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include "oort/tokenizer.h"

namespace oort {

/// Where the tokenizer of a checkpoint is, as it was found in the files.
struct TokenizerSource {
  enum class Kind : unsigned char {
    kNone,
    kJson,           ///< Tokenizer::FromJson(bytes, config)
    kSentencePiece,  ///< Tokenizer::FromSentencePiece(bytes, config)
    kLlama2c,        ///< Tokenizer::FromLlama2c(bytes, vocabulary_size)
    kVocabulary,     ///< Tokenizer::FromVocabulary(vocabulary)
  };
  Kind kind = Kind::kNone;
  std::string bytes;
  std::string config;  ///< text of tokenizer_config.json, or empty
  size_t vocabulary_size = 0;
  VocabularySpec vocabulary;  ///< what a GGUF says, also where its tokenizer.json is preferred
};

}  // namespace oort
