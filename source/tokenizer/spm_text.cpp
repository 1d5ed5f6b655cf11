// SPDX-License-Identifier: MIT
#include <utility>

#include "text/utf8.h"
#include "tokenizer/hashing.h"
#include "tokenizer/spm.h"

namespace oort::tokenizer {
namespace {

class SpmNormalizer final : public Normalizer {
 public:
  SpmNormalizer(std::string_view charsmap, SpmTextOptions options,
                const std::vector<std::string>& kept)
      : map_(charsmap), options_(options) {
    for (const std::string& piece : kept) kept_.Add(piece, 0);
  }

  void Apply(NormalText& text, text::Regex::Scratch&) const override {
    std::string_view in = text.text;
    std::string out;
    if (options_.remove_extra_whitespaces) {
      for (Front front; !in.empty() && (front = FrontOfText(in)).text == " ";) {
        in.remove_prefix(front.length);
      }
    }
    if (!in.empty()) Rewrite(in, out);
    text.text = std::move(out);
    text.from_start = 0;
  }

 private:
  struct Front {
    std::string_view text;
    size_t length = 0;
  };

  Front FrontOfText(std::string_view in) const {
    const size_t kept = kept_.LongestPrefix(in).length;
    if (kept > 0) return {in.substr(0, kept), kept};
    const Charsmap::Found found = map_.LongestPrefix(in);
    if (found.length > 0) return {found.replacement, found.length};
    const text::Utf8Front front = text::FrontOf(in);
    if (front.kind != text::Utf8Front::kCharacter) return {text::kReplacementText, 1};
    return {in.substr(0, front.length), front.length};
  }

  std::string_view Space() const { return options_.escape_whitespaces ? kSpaceSymbol : " "; }

  void Rewrite(std::string_view in, std::string& out) const {
    if (options_.add_dummy_prefix && !options_.suffix_spaces) out += Space();
    bool after_space = options_.remove_extra_whitespaces;
    while (!in.empty()) {
      const Front front = FrontOfText(in);
      in.remove_prefix(front.length);
      std::string_view part = front.text;
      while (after_space && part.starts_with(' ')) part.remove_prefix(1);
      for (const char c : part) {
        if (c == ' ') {
          out += Space();
        } else {
          out += c;
        }
      }
      if (!part.empty()) after_space = part.ends_with(' ');
      if (!options_.remove_extra_whitespaces) after_space = false;
    }
    while (options_.remove_extra_whitespaces && std::string_view(out).ends_with(Space())) {
      out.resize(out.size() - Space().size());
    }
    if (options_.add_dummy_prefix && options_.suffix_spaces) out += Space();
  }

  Charsmap map_;
  SpmTextOptions options_;
  ByteTrie kept_;
};

class SpmSink final : public PieceSink {
 public:
  SpmSink(PieceSinkPtr next, SpmTextOptions options, bool bytes, std::string unk,
          std::string unk_surface)
      : next_(std::move(next)),
        options_(options),
        bytes_(bytes),
        unk_(std::move(unk)),
        unk_surface_(std::move(unk_surface)) {}

  void Part(std::string_view text) override { piece_ += text; }
  void End() override {
    const std::string piece = std::exchange(piece_, std::string());
    const int byte = bytes_ ? ByteOfPiece(piece) : -1;
    if (byte >= 0) {
      run_ += static_cast<char>(byte);
      PassBytes(false);
      return;
    }
    PassBytes(true);
    if (space_seen_ || any_text_) at_start_ = false;
    Pass(Surface(piece));
  }
  /// Even unseen it ends a run of bytes.
  void Skip() override {
    PassBytes(true);
    if (space_seen_ || any_text_) at_start_ = false;
    space_seen_ = false;
  }
  void Finish() override {
    PassBytes(true);
    next_->End();
    next_->Finish();
  }

 private:
  std::string Surface(std::string_view piece) {
    space_seen_ = false;
    if (piece == unk_) return unk_surface_;
    if (at_start_ && (options_.add_dummy_prefix || options_.remove_extra_whitespaces) &&
        piece.starts_with(kSpaceSymbol)) {
      piece.remove_prefix(kSpaceSymbol.size());
      // With extra spaces removed, all leading ones go, not just the first.
      space_seen_ = !options_.remove_extra_whitespaces;
    }
    std::string out;
    for (size_t at = 0; at < piece.size();) {
      const size_t space = piece.find(kSpaceSymbol, at);
      out += piece.substr(at, space - at);
      if (space == std::string_view::npos) break;
      out += ' ';
      at = space + kSpaceSymbol.size();
    }
    return out;
  }

  /// Each byte that is not part of a character becomes one U+FFFD.
  void PassBytes(bool all) {
    std::string_view rest = run_;
    while (!rest.empty()) {
      const text::Utf8Front front = text::FrontOf(rest);
      if (front.kind == text::Utf8Front::kIncomplete && !all) break;
      const bool valid = front.kind == text::Utf8Front::kCharacter;
      const size_t length = valid ? front.length : 1;
      Pass(valid ? rest.substr(0, length) : text::kReplacementText);
      rest.remove_prefix(length);
    }
    run_ = std::string(rest);
  }

  void Pass(std::string_view text) {
    any_text_ = any_text_ || !text.empty();
    next_->Part(text);
  }

  PieceSinkPtr next_;
  SpmTextOptions options_;
  bool bytes_;
  std::string unk_, unk_surface_;
  std::string piece_, run_;
  bool at_start_ = true, space_seen_ = false, any_text_ = false;
};

class SpmDecoder final : public Decoder {
 public:
  SpmDecoder(SpmTextOptions options, bool bytes, std::string unk, std::string unk_surface)
      : options_(options),
        bytes_(bytes),
        unk_(std::move(unk)),
        unk_surface_(std::move(unk_surface)) {}
  PieceSinkPtr Start(PieceSinkPtr next) const override {
    return std::make_unique<SpmSink>(std::move(next), options_, bytes_, unk_, unk_surface_);
  }

 private:
  SpmTextOptions options_;
  bool bytes_;
  std::string unk_, unk_surface_;
};

}  // namespace

NormalizerPtr MakeSpmNormalizer(std::string_view charsmap, SpmTextOptions options,
                                const std::vector<std::string>& kept) {
  return std::make_unique<SpmNormalizer>(charsmap, options, kept);
}

DecoderPtr MakeSpmDecoder(SpmTextOptions options, bool bytes, std::string unk,
                          std::string unk_surface) {
  return std::make_unique<SpmDecoder>(options, bytes, std::move(unk), std::move(unk_surface));
}

}  // namespace oort::tokenizer
