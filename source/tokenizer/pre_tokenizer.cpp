// SPDX-License-Identifier: MIT
#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text/utf8.h"
#include "tokenizer/byte_level.h"

namespace oort::tokenizer {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string_view TextArena::Keep(std::string_view text) {
  constexpr size_t kBlock = size_t{1} << 16;
  if (text.empty()) return {};
  while (block_ < blocks_.size() && sizes_[block_] - used_ < text.size()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    sizes_.push_back(std::max(kBlock, text.size()));
    blocks_.push_back(std::make_unique<char[]>(sizes_.back()));
  }
  char* place = blocks_[block_].get() + used_;
  std::memcpy(place, text.data(), text.size());
  used_ += text.size();
  return {place, text.size()};
}

void TextArena::Clear() {
  constexpr size_t kKeptBlocks = 16;  // a long text does not hold its memory for ever
  if (blocks_.size() > kKeptBlocks) {
    blocks_.resize(kKeptBlocks);
    sizes_.resize(kKeptBlocks);
  }
  block_ = used_ = 0;
}

namespace {

/// Calls `split` for every word that is still text; it appends to words.next.
template <typename Split>
void ForEachText(Words& words, Split split) {
  words.next.clear();
  for (const Word& word : words.list) {
    if (word.id >= 0) {
      words.next.push_back(word);
    } else {
      split(word);
    }
  }
  words.list.swap(words.next);
}

/// Cuts a word at words.spans, which cover it.
void CutAtSpans(Words& words, const Word& word, SplitBehavior behavior) {
  auto& spans = words.spans;
  size_t kept = 0;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const auto& span : spans) {
        if (!span.match) words.Cut(word, span.begin, span.end);
      }
      return;
    case SplitBehavior::kIsolated:
      for (const auto& span : spans) words.Cut(word, span.begin, span.end);
      return;
    case SplitBehavior::kContiguous:
    case SplitBehavior::kMergedWithPrevious:
      for (const auto& span : spans) {
        const bool joins = behavior == SplitBehavior::kContiguous ? span.match == previous
                                                                  : span.match && !previous;
        previous = span.match;
        if (joins && kept > 0) {
          spans[kept - 1].end = span.end;
        } else {
          spans[kept++] = span;
        }
      }
      break;
    case SplitBehavior::kMergedWithNext:
      std::reverse(spans.begin(), spans.end());
      for (const auto& span : spans) {
        const bool joins = span.match && !previous;
        previous = span.match;
        if (joins && kept > 0) {
          spans[kept - 1].begin = span.begin;
        } else {
          spans[kept++] = span;
        }
      }
      std::reverse(spans.begin(), spans.begin() + static_cast<ptrdiff_t>(kept));
      break;
  }
  for (size_t i = 0; i < kept; ++i) words.Cut(word, spans[i].begin, spans[i].end);
}

void CutAtPattern(Words& words, const Word& word, const text::Regex& pattern,
                  SplitBehavior behavior, bool invert) {
  size_t done = 0;
  if (behavior == SplitBehavior::kIsolated) {  // the usual one, without a list in between
    pattern.ForEach(word.text, words.regex, [&](text::Regex::Match match) {
      words.Cut(word, done, match.begin);
      words.Cut(word, match.begin, match.end);
      done = match.end;
    });
    words.Cut(word, done, word.text.size());
    return;
  }
  words.spans.clear();
  pattern.ForEach(word.text, words.regex, [&](text::Regex::Match match) {
    if (done != match.begin) words.spans.push_back({done, match.begin, invert});
    words.spans.push_back({match.begin, match.end, !invert});
    done = match.end;
  });
  if (done != word.text.size()) words.spans.push_back({done, word.text.size(), invert});
  CutAtSpans(words, word, behavior);
}

template <typename Test>
void CutAtCharacters(Words& words, const Word& word, Test test, SplitBehavior behavior) {
  words.spans.clear();
  size_t done = 0;
  for (size_t at = 0; at < word.text.size();) {
    const size_t begin = at;
    if (!test(text::NextCodePoint(word.text, at))) continue;
    if (done < begin) words.spans.push_back({done, begin, false});
    words.spans.push_back({begin, at, true});
    done = at;
  }
  if (done < word.text.size()) words.spans.push_back({done, word.text.size(), false});
  CutAtSpans(words, word, behavior);
}

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}
  void Apply(Words& words) const override {
    for (const PreTokenizerPtr& step : steps_) step->Apply(words);
  }

 private:
  std::vector<PreTokenizerPtr> steps_;
};

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(text::Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void Apply(Words& words) const override {
    ForEachText(words,
                [&](const Word& word) { CutAtPattern(words, word, pattern_, behavior_, invert_); });
  }

 private:
  text::Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

Word Keep(Words& words, const NormalText& text) {
  return {words.arena.Keep(text.text), -1, text.from_start};
}

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex, bool map)
      : pattern_(kGpt2Pattern),
        add_prefix_space_(add_prefix_space),
        use_regex_(use_regex),
        map_(map) {}

  void Apply(Words& words) const override {
    if (add_prefix_space_ || use_regex_) {
      ForEachText(words, [&](Word word) {
        if (add_prefix_space_ && !word.text.starts_with(' ')) {
          NormalText text{std::string(word.text), word.from_start};
          PrependText(text, " ");
          word = Keep(words, text);
        }
        if (use_regex_) {
          CutAtPattern(words, word, pattern_, SplitBehavior::kIsolated, false);
        } else {
          words.next.push_back(word);
        }
      });
    }
    if (!map_) return;
    for (Word& word : words.list) {
      if (word.id >= 0) continue;
      const size_t start = ToByteLevel(word.text.substr(0, word.from_start)).size();
      word.text = words.arena.Keep(ToByteLevel(word.text));
      word.from_start = start;
    }
  }

 private:
  text::Regex pattern_;
  bool add_prefix_space_, use_regex_, map_;
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(std::string replacement, PrependScheme scheme, bool split)
      : space_(text::Regex::Literal(" ")),
        pattern_(text::Regex::Literal(replacement)),
        replacement_(std::move(replacement)),
        scheme_(scheme),
        split_(split) {}

  void Apply(Words& words) const override {
    ForEachText(words, [&](const Word& word) {
      NormalText text{std::string(word.text), word.from_start};
      ReplaceMatches(text, space_, replacement_, words.regex);
      const bool wanted = scheme_ == PrependScheme::kAlways ||
                          (scheme_ == PrependScheme::kFirst && text.from_start > 0);
      if (wanted && !text.text.starts_with(replacement_)) PrependText(text, replacement_);
      const Word kept = Keep(words, text);
      if (split_) {
        CutAtPattern(words, kept, pattern_, SplitBehavior::kMergedWithNext, false);
      } else {
        words.Cut(kept, 0, kept.text.size());
      }
    });
  }

 private:
  text::Regex space_, pattern_;
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

/// Cuts at the characters of a set.
class SetPreTokenizer final : public PreTokenizer {
 public:
  SetPreTokenizer(const text::CodePointSet& set, SplitBehavior behavior)
      : set_(&set), behavior_(behavior) {}
  void Apply(Words& words) const override {
    ForEachText(words, [&](const Word& word) {
      CutAtCharacters(
          words, word, [&](uint32_t c) { return set_->Contains(c); }, behavior_);
    });
  }

 private:
  const text::CodePointSet* set_;
  SplitBehavior behavior_;
};

/// Runs of word characters and runs of other characters, without the spaces.
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  void Apply(Words& words) const override {
    ForEachText(words, [&](const Word& word) {
      int kind = 0;  // 0 space, 1 word, 2 other
      size_t begin = 0;
      for (size_t at = 0; at < word.text.size();) {
        const size_t here = at;
        const uint32_t c = text::NextCodePoint(word.text, at);
        const int now = text::RegexWordSet().Contains(c)   ? 1
                        : text::RustSpaceSet().Contains(c) ? 0
                                                           : 2;
        if (now == kind) continue;
        if (kind != 0) words.Cut(word, begin, here);
        begin = here;
        kind = now;
      }
      if (kind != 0) words.Cut(word, begin, word.text.size());
    });
  }
};

/// Cuts where the script changes. What comes before the first character with a script is lost.
class UnicodeScriptsPreTokenizer final : public PreTokenizer {
 public:
  void Apply(Words& words) const override {
    ForEachText(words, [&](const Word& word) {
      uint32_t last = 0;
      size_t begin = 0;
      bool begun = false;
      for (size_t at = 0; at < word.text.size();) {
        const size_t here = at;
        const uint32_t script =
            text::ValueIn(text::unicode::kHuggingScript, text::NextCodePoint(word.text, at));
        if (script == 0 || script == last) continue;
        if (begun) words.Cut(word, begin, here);
        begin = here;
        begun = true;
        last = script;
      }
      if (begun) words.Cut(word, begin, word.text.size());
    });
  }
};

class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t length) : length_(length) {}
  void Apply(Words& words) const override {
    ForEachText(words, [&](const Word& word) {
      size_t begin = 0;
      size_t count = 0;
      for (size_t at = 0; at < word.text.size();) {
        text::NextCodePoint(word.text, at);
        if (++count < length_) continue;
        words.Cut(word, begin, at);
        begin = at;
        count = 0;
      }
      words.Cut(word, begin, word.text.size());
    });
  }

 private:
  size_t length_;
};

}  // namespace

PreTokenizerPtr MakePreTokenizerSequence(std::vector<PreTokenizerPtr> steps) {
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}
PreTokenizerPtr MakeSplit(text::Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert);
}
PreTokenizerPtr MakeByteLevel(bool add_prefix_space, bool use_regex, bool map) {
  return std::make_unique<ByteLevelPreTokenizer>(add_prefix_space, use_regex, map);
}
PreTokenizerPtr MakeMetaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<MetaspacePreTokenizer>(std::move(replacement), scheme, split);
}
PreTokenizerPtr MakeDigits(bool individual) {
  return std::make_unique<SetPreTokenizer>(
      text::NumericSet(), individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}
PreTokenizerPtr MakePunctuation(SplitBehavior behavior) {
  return std::make_unique<SetPreTokenizer>(text::PunctuationSet(), behavior);
}
PreTokenizerPtr MakeWhitespace() { return std::make_unique<WhitespacePreTokenizer>(); }
PreTokenizerPtr MakeWhitespaceSplit() {
  return std::make_unique<SetPreTokenizer>(text::RustSpaceSet(), SplitBehavior::kRemoved);
}
PreTokenizerPtr MakeBertPreTokenizer() {
  std::vector<PreTokenizerPtr> steps;
  steps.push_back(MakeWhitespaceSplit());
  steps.push_back(MakePunctuation(SplitBehavior::kIsolated));
  return MakePreTokenizerSequence(std::move(steps));
}
PreTokenizerPtr MakeDelimiter(std::string delimiter) {
  return MakeSplit(text::Regex::Literal(delimiter), SplitBehavior::kRemoved, false);
}
PreTokenizerPtr MakeUnicodeScripts() { return std::make_unique<UnicodeScriptsPreTokenizer>(); }
PreTokenizerPtr MakeFixedLength(size_t length) {
  return std::make_unique<FixedLengthPreTokenizer>(length);
}

}  // namespace oort::tokenizer
