// SPDX-License-Identifier: MIT
// Tokens that are found in the text before anything else looks at it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "oort/tokenizer.h"
#include "tokenizer/hashing.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace oort::tokenizer {

struct AddedToken {
  std::string content;
  bool single_word = false;  ///< not where a letter stands before or after it
  bool lstrip = false;       ///< takes the spaces before it along
  bool rstrip = false;       ///< … and those after it
  bool normalized = true;    ///< is looked for in the normalized text
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

/// Where special tokens may be found in a text.
struct SpecialRule {
  bool parse = true;
  std::string_view text;             ///< that the ranges are of
  std::span<const TextRange> plain;  ///< in order; nothing that overlaps these is special

  /// Whether a part of the text may be a special token.
  bool Allows(std::string_view part) const;
};

class AddedTokens {
 public:
  /// Each token gets the id that the model's vocabulary has for it, or the next one after its size:
  /// as in the tokenizers library, ids that a file states are not used. `normalizer` may be null.
  AddedTokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary,
              const Normalizer* normalizer);
  AddedTokens() = default;

  int32_t Find(std::string_view content) const;
  /// The text of a token as it is decoded; null where the id is not of an added token.
  const std::string* Text(int32_t id) const;
  /// Whether the text is that of a special token.
  bool IsSpecialText(std::string_view text) const { return special_.contains(std::string(text)); }
  int64_t end_id() const { return end_id_; }

  bool HasRaw() const { return !raw_.trie.empty(); }
  bool HasNormalized() const { return !normalized_.trie.empty(); }
  /// Cuts a word at the tokens that are looked for in raw (or in normalized) text.
  void CutRaw(Words& words, const Word& word, const SpecialRule& rule) const {
    Cut(words, word, raw_, rule);
  }
  void CutNormalized(Words& words, const Word& word, const SpecialRule& rule) const {
    Cut(words, word, normalized_, rule);
  }

 private:
  struct Matcher {
    ByteTrie trie;
    std::array<bool, 256> begins{};
    void Add(std::string_view text, int32_t id);
  };
  void Cut(Words& words, const Word& word, const Matcher& matcher, const SpecialRule& rule) const;

  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, AddedToken> tokens_;
  std::map<int32_t, std::string> texts_;
  std::unordered_set<std::string> special_;
  Matcher raw_, normalized_;
  int64_t end_id_ = 0;
};

}  // namespace oort::tokenizer
