// SPDX-License-Identifier: MIT
#include "tokenizer/normalizer.h"

#include <algorithm>
#include <utility>

#include "oort/error.h"
#include "text/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/charsmap.h"

namespace oort::tokenizer {

void Rewriter::ThrowTooLong() {
  throw Error(ErrorCode::kLimit, "the normalizer makes the text longer than a gigabyte");
}

void ReplaceMatches(NormalText& text, const text::Regex& pattern, std::string_view content,
                    text::Regex::Scratch& scratch) {
  Rewriter out(text);
  const std::string_view all = text.text;
  size_t done = 0;
  bool changed = false;
  const auto copy_until = [&](size_t end) {
    // Only the first bytes may stem from the start: the rest goes over in one piece.
    const size_t border = std::clamp(text.from_start, done, end);
    if (border > done) out.Add(all.substr(done, border - done), done);
    if (end > border) out.Add(all.substr(border, end - border), border);
    done = end;
  };
  pattern.ForEach(all, scratch, [&](text::Regex::Match match) {
    changed = true;
    copy_until(match.begin);
    out.Insert(content, match.end);
    done = match.end;
  });
  if (!changed) return;
  copy_until(all.size());
  text = out.Take();
}

void PrependText(NormalText& text, std::string_view prefix) {
  if (text.text.empty()) return;
  text.text.insert(0, prefix);
  if (text.from_start > 0) text.from_start += prefix.size();
}

namespace {

/// Rewrites character by character; `write(code point, text to append to)`.
template <typename Write>
void RewriteCharacters(NormalText& text, Write write) {
  Rewriter out(text);
  std::string part;
  const std::string_view all = text.text;
  for (size_t at = 0; at < all.size();) {
    const size_t source = at;
    const uint32_t c = text::NextCodePoint(all, at);
    if (source >= text.from_start) {
      write(c, out.text());
      continue;
    }
    part.clear();
    write(c, part);
    out.Add(part, source);
  }
  text = out.Take();
}

void KeepUnless(NormalText& text, const text::CodePointSet& removed) {
  RewriteCharacters(text, [&](uint32_t c, std::string& out) {
    if (!removed.Contains(c)) text::AppendUtf8(out, c);
  });
}

void ToForm(NormalText& text, text::NormalForm form) {
  std::string out = text::ToNormalForm(text.text, form);
  if (text.from_start > 0 && !out.empty()) {
    text.from_start = text::LengthFromLead(static_cast<unsigned char>(out[0]));
  }
  text.text = std::move(out);
}

void ToLowercase(NormalText& text) {
  RewriteCharacters(text, [](uint32_t c, std::string& out) { text::AppendLowercase(out, c); });
}

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}
  void Apply(NormalText& text, text::Regex::Scratch& scratch) const override {
    for (const NormalizerPtr& step : steps_) step->Apply(text, scratch);
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(text::NormalForm form) : form_(form) {}
  void Apply(NormalText& text, text::Regex::Scratch&) const override { ToForm(text, form_); }

 private:
  text::NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& text, text::Regex::Scratch&) const override { ToLowercase(text); }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    const text::CodePointSet& space = text::RustSpaceSet();
    const std::string_view all = text.text;
    size_t begin = 0;
    size_t end = all.size();
    for (size_t at = 0; left_ && at < end && space.Contains(text::NextCodePoint(all, at));)
      begin = at;
    while (right_ && end > begin) {
      const size_t start = text::PreviousStart(all, end);
      size_t at = start;
      if (!space.Contains(text::NextCodePoint(all, at))) break;
      end = start;
    }
    text.from_start = text.from_start > begin ? std::min(text.from_start, end) - begin : 0;
    text.text = std::string(all.substr(begin, end - begin));
  }

 private:
  bool left_, right_;
};

class StripAccentsNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    KeepUnless(text, text::CombiningMarkSet());
  }
};

class NmtNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    RewriteCharacters(text, [](uint32_t c, std::string& out) {
      const bool removed = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                           c == 0x8F || c == 0x9F;
      if (removed) return;
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                         c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      text::AppendUtf8(out, space ? ' ' : c);
    });
  }
};

bool IsChinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertNormalizerOptions options) : options_(options) {}
  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    if (options_.clean_text) {
      RewriteCharacters(text, [](uint32_t c, std::string& out) {
        if (text::BertControlSet().Contains(c)) return;
        text::AppendUtf8(out, text::RustSpaceSet().Contains(c) ? ' ' : c);
      });
    }
    if (options_.handle_chinese_chars) {
      RewriteCharacters(text, [](uint32_t c, std::string& out) {
        const bool chinese = IsChinese(c);
        if (chinese) out += ' ';
        text::AppendUtf8(out, c);
        if (chinese) out += ' ';
      });
    }
    if (options_.strip_accents) {
      ToForm(text, text::NormalForm::kNfd);
      KeepUnless(text, text::NonspacingMarkSet());
    }
    if (options_.lowercase) ToLowercase(text);
  }

 private:
  BertNormalizerOptions options_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string text) : prefix_(std::move(text)) {}
  void Apply(NormalText& text, text::Regex::Scratch&) const override { PrependText(text, prefix_); }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(text::Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void Apply(NormalText& text, text::Regex::Scratch& scratch) const override {
    ReplaceMatches(text, pattern_, content_, scratch);
  }

 private:
  text::Regex pattern_;
  std::string content_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    Rewriter out(text);
    for (size_t i = 0; i < text.text.size(); ++i) {
      out.Add(ByteCharacters()[static_cast<unsigned char>(text.text[i])], i);
    }
    text = out.Take();
  }
};

class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(std::string_view charsmap) : map_(charsmap) {}
  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    constexpr size_t kLongestWhole = 5;  // bytes of a grapheme that is looked up as a whole
    const std::string_view all = text.text;
    Rewriter out(text);
    for (size_t at = 0; at < all.size();) {
      const size_t end = text::GraphemeEnd(all, at);
      if (end - at <= kLongestWhole) {
        const Charsmap::Found found = map_.FirstPrefix(all.substr(at, end - at));
        if (found.length > 0) {
          out.Add(found.replacement, at);
          at = end;
          continue;
        }
      }
      while (at < end) {
        const size_t length = text::LengthFromLead(static_cast<unsigned char>(all[at]));
        const std::string_view character = all.substr(at, length);
        const Charsmap::Found found = map_.FirstPrefix(character);
        out.Add(found.length > 0 ? found.replacement : character, at);
        at += length;
      }
    }
    text = out.Take();
  }

 private:
  Charsmap map_;
};

}  // namespace

NormalizerPtr MakeNormalizerSequence(std::vector<NormalizerPtr> steps) {
  return std::make_unique<NormalizerSequence>(std::move(steps));
}
NormalizerPtr MakeFormNormalizer(text::NormalForm form) {
  return std::make_unique<FormNormalizer>(form);
}
NormalizerPtr MakeLowercase() { return std::make_unique<LowercaseNormalizer>(); }
NormalizerPtr MakeStrip(bool left, bool right) {
  return std::make_unique<StripNormalizer>(left, right);
}
NormalizerPtr MakeStripAccents() { return std::make_unique<StripAccentsNormalizer>(); }
NormalizerPtr MakeNmt() { return std::make_unique<NmtNormalizer>(); }
NormalizerPtr MakeBertNormalizer(BertNormalizerOptions options) {
  return std::make_unique<BertNormalizer>(options);
}
NormalizerPtr MakePrepend(std::string text) {
  return std::make_unique<PrependNormalizer>(std::move(text));
}
NormalizerPtr MakeReplace(text::Regex pattern, std::string content) {
  return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(content));
}
NormalizerPtr MakeByteLevelNormalizer() { return std::make_unique<ByteLevelNormalizer>(); }
NormalizerPtr MakePrecompiled(std::string_view charsmap) {
  return std::make_unique<PrecompiledNormalizer>(charsmap);
}

}  // namespace oort::tokenizer
