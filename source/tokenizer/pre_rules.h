// SPDX-License-Identifier: MIT
// What GGUF's names of pre-tokenizers (`tokenizer.ggml.pre`) stand for.
#pragma once

#include <string_view>

#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace oort::tokenizer {

/// The whole pipeline of the family that the name belongs to, where GGUF keeps only the name.
struct PreRule {
  NormalizerPtr normalizer;
  PreTokenizerPtr pre_tokenizer;  ///< null: the text is one word
  bool ignore_merges = false;
  bool add_bos = false;
  bool raw_text = false;  ///< pieces are plain UTF-8 with ▁ for spaces, unknown text becomes bytes
};

/// Throws kUnsupported for a name that is not known. `map_last` as in ReadPreTokenizer.
PreRule PreRuleOf(std::string_view name, bool map_last);

}  // namespace oort::tokenizer
