// SPDX-License-Identifier: MIT
// The third step of a tokenizer: from words to ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace oort::tokenizer {

/// Memory of the models' algorithms; one for each thread.
struct ModelScratch {
  struct Symbol {
    int32_t id;
    int32_t previous, next;
    uint32_t begin, length;  ///< where it stands in the word
    uint32_t rank;           ///< of the merge with its neighbour; also "is gone"
    bool frozen;
  };
  struct Candidate {
    float score;
    uint32_t rank;
    int32_t left, right;
    int32_t id;
    uint32_t length;
  };
  struct Step {
    double score;
    float score32;
    int32_t id;
    int64_t begin;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<Step> steps;
  std::vector<std::pair<size_t, size_t>> ranges;
  std::string text;
};

inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // ▁

/// Where the first part of a word ends, see Model::cuts_at_spaces.
size_t EndOfSpacedWord(std::string_view text);

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of a word, which is not empty and valid UTF-8.
  virtual void Encode(std::string_view word, std::vector<int32_t>& ids,
                      ModelScratch& scratch) const = 0;
  /// Whether equal short words come often enough to remember them.
  virtual bool worth_caching() const { return true; }
  /// Whether a word may be cut before each ▁ that follows another character: no piece crosses
  /// such a place, so the parts are encoded alone, and equal ones are remembered.
  bool cuts_at_spaces() const { return cuts_at_spaces_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  /// What cuts_at_spaces promises, as far as the pieces decide it.
  bool NoPieceCrossesSpaces() const;
  Vocabulary vocabulary_;
  bool cuts_at_spaces_ = false;
};
using ModelPtr = std::unique_ptr<const Model>;

struct BpeOptions {
  std::optional<std::string> unk;
  std::string continuing_prefix, word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  /// Words are bytes, each of which stands for a character of GPT-2's alphabet; needs
  /// CanTakeBytes.
  bool words_are_bytes = false;
};
using Merges = std::vector<std::pair<std::string, std::string>>;

/// Whether all 256 bytes have a piece.
bool CanTakeBytes(const Vocabulary& vocabulary);
/// `lenient`: merges that name pieces which the vocabulary lacks are left out, not an error.
ModelPtr MakeBpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options,
                 bool lenient = false);

/// Hugging Face's Unigram: `scores` of ids 0, 1, …
ModelPtr MakeUnigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unk,
                     bool byte_fallback);
ModelPtr MakeWordPiece(Vocabulary vocabulary, std::string unk, std::string continuing_prefix,
                       int64_t max_characters);
ModelPtr MakeWordLevel(Vocabulary vocabulary, std::string unk);

/// Ids of "<0x00>" … "<0xFF>", -1 where missing.
std::array<int32_t, 256> BytePieces(const Vocabulary& vocabulary);
std::string BytePiece(unsigned char byte);

}  // namespace oort::tokenizer
