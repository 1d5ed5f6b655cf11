// SPDX-License-Identifier: MIT
// The second step of a tokenizer: cutting the text into words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "tokenizer/normalizer.h"

namespace oort::tokenizer {

/// Text that stays where it is until Clear.
class TextArena {
 public:
  std::string_view Keep(std::string_view text);
  void Clear();

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<size_t> sizes_;
  size_t block_ = 0, used_ = 0;
};

struct Word {
  std::string_view text;
  int32_t id = -1;        ///< an added token; the following steps leave it alone
  size_t from_start = 0;  ///< see NormalText
};

/// The words of a text on their way, and the memory that the steps share.
struct Words {
  std::vector<Word> list, next;
  TextArena arena;
  text::Regex::Scratch regex;
  struct Span {
    size_t begin, end;
    bool match;
  };
  std::vector<Span> spans;

  /// Appends the part [begin, end) of a word to `next`; empty parts vanish.
  void Cut(const Word& word, size_t begin, size_t end) {
    if (begin >= end) return;
    const size_t rest = word.from_start > begin ? word.from_start - begin : 0;
    next.push_back(
        {word.text.substr(begin, end - begin), -1, rest < end - begin ? rest : end - begin});
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void Apply(Words& words) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

/// What becomes of the matches that a text is cut at.
enum class SplitBehavior : unsigned char {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};
enum class PrependScheme : unsigned char { kAlways, kFirst, kNever };

PreTokenizerPtr MakePreTokenizerSequence(std::vector<PreTokenizerPtr> steps);
PreTokenizerPtr MakeSplit(text::Regex pattern, SplitBehavior behavior, bool invert);
/// `map`: whether bytes become characters here, or later in the model.
PreTokenizerPtr MakeByteLevel(bool add_prefix_space, bool use_regex, bool map);
PreTokenizerPtr MakeMetaspace(std::string replacement, PrependScheme scheme, bool split);
PreTokenizerPtr MakeDigits(bool individual);
PreTokenizerPtr MakePunctuation(SplitBehavior behavior);
PreTokenizerPtr MakeWhitespace();
PreTokenizerPtr MakeWhitespaceSplit();
PreTokenizerPtr MakeBertPreTokenizer();
PreTokenizerPtr MakeDelimiter(std::string delimiter);
PreTokenizerPtr MakeUnicodeScripts();
PreTokenizerPtr MakeFixedLength(size_t length);

/// GPT-2's pattern, which ByteLevel cuts with.
extern const char* const kGpt2Pattern;

}  // namespace oort::tokenizer
