// SPDX-License-Identifier: MIT
// The first step of a tokenizer: rewriting the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace oort::tokenizer {

/// Text on its way through the pipeline. `from_start` counts the leading bytes that stem from the
/// first character of the whole input: that is all that Metaspace's "first" needs of offsets.
struct NormalText {
  std::string text;
  size_t from_start = 0;
};

/// Builds the next NormalText out of a former one, carrying from_start over.
class Rewriter {
 public:
  explicit Rewriter(const NormalText& in) : in_(in) { out_.text.reserve(in.text.size() + 16); }
  /// Adds what takes the place of the byte `source` of the old text.
  void Add(std::string_view text, size_t source) {
    out_.text += text;
    if (source < in_.from_start) out_.from_start += text.size();
  }
  /// Adds text that was not there, after the byte before `source`.
  void Insert(std::string_view text, size_t source) {
    if (out_.text.size() + text.size() > kLongest) ThrowTooLong();
    out_.text += text;
    if (source == 0 || source - 1 < in_.from_start) out_.from_start += text.size();
  }
  std::string& text() { return out_.text; }
  NormalText Take() { return std::move(out_); }

 private:
  static constexpr size_t kLongest = size_t{1} << 30;
  [[noreturn]] static void ThrowTooLong();
  const NormalText& in_;
  NormalText out_;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void Apply(NormalText& text, text::Regex::Scratch& scratch) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

struct BertNormalizerOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lowercase = true;
};

NormalizerPtr MakeNormalizerSequence(std::vector<NormalizerPtr> steps);
NormalizerPtr MakeFormNormalizer(text::NormalForm form);
NormalizerPtr MakeLowercase();
NormalizerPtr MakeStrip(bool left, bool right);
NormalizerPtr MakeStripAccents();
NormalizerPtr MakeNmt();
NormalizerPtr MakeBertNormalizer(BertNormalizerOptions options);
NormalizerPtr MakePrepend(std::string text);
NormalizerPtr MakeReplace(text::Regex pattern, std::string content);
NormalizerPtr MakeByteLevelNormalizer();
/// Hugging Face's reading of a sentencepiece charsmap: whole graphemes, then characters.
NormalizerPtr MakePrecompiled(std::string_view charsmap);

/// Replaces each match; also Metaspace's way of replacing spaces.
void ReplaceMatches(NormalText& text, const text::Regex& pattern, std::string_view content,
                    text::Regex::Scratch& scratch);
void PrependText(NormalText& text, std::string_view prefix);

}  // namespace oort::tokenizer
