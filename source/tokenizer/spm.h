// SPDX-License-Identifier: MIT
// sentencepiece's own models and text rules, for .model files, for the GGUF vocabularies made from
// them and for llama2.c.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/charsmap.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"

namespace oort::tokenizer {

enum class PieceType : unsigned char {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// Pieces by id.
struct SpmVocabulary {
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<PieceType> types;
  int32_t unk = 0;
  bool byte_fallback = false;
};

enum class SpmAlgorithm : unsigned char { kUnigram, kBpe, kWord, kCharacter };

struct SpmOptions {
  SpmAlgorithm algorithm = SpmAlgorithm::kUnigram;
  /// Unigram: sums in f64, scores of user-defined pieces 0, unused pieces used: as in tokenizers
  /// made from a GGUF. sentencepiece itself sums in f32.
  bool f64 = false;
  /// BPE: a character without a piece becomes bytes at once, before anything merges (llama2.c).
  bool bytes_first = false;
  bool suffix_spaces = false;  ///< words end with their space instead of beginning with it
};

/// Pieces of a .model file, and how they merge.
SpmVocabulary ReadSpmVocabulary(std::string_view bytes, SpmAlgorithm& algorithm);

/// Throws kInvalidModel where the vocabulary contradicts itself.
ModelPtr MakeSpm(SpmVocabulary vocabulary, SpmOptions options);

struct SpmTextOptions {
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool suffix_spaces = false;
};
/// `kept`: user-defined pieces, which no rule touches. Takes any bytes: what is not UTF-8 becomes
/// U+FFFD, and no rule touches that either.
NormalizerPtr MakeSpmNormalizer(std::string_view charsmap, SpmTextOptions options,
                                const std::vector<std::string>& kept);
/// `bytes`: whether "<0x0A>" is a byte; `unk` is printed as `unk_surface`.
DecoderPtr MakeSpmDecoder(SpmTextOptions options, bool bytes, std::string unk,
                          std::string unk_surface);

}  // namespace oort::tokenizer
