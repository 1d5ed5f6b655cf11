// SPDX-License-Identifier: MIT
#include "tokenizer/tokenizer_of.h"

#include "oort/error.h"

namespace oort::tokenizer {

Tokenizer TokenizerOf(const TokenizerSource& source) {
  switch (source.kind) {
    case TokenizerSource::Kind::kJson: return Tokenizer::FromJson(source.bytes, source.config);
    case TokenizerSource::Kind::kSentencePiece:
      return Tokenizer::FromSentencePiece(source.bytes, source.config);
    case TokenizerSource::Kind::kLlama2c:
      return Tokenizer::FromLlama2c(source.bytes, source.vocabulary_size);
    case TokenizerSource::Kind::kVocabulary: return Tokenizer::FromVocabulary(source.vocabulary);
    case TokenizerSource::Kind::kNone: break;
  }
  throw Error(ErrorCode::kNotFound, "the model comes without a tokenizer");
}

}  // namespace oort::tokenizer
