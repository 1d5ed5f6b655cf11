// SPDX-License-Identifier: MIT
#include "tokenizer/decoder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "text/utf8.h"
#include "tokenizer/byte_level.h"

namespace oort::tokenizer {

int ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (size_t i = 3; i < 5; ++i) {
    const char c = piece[i];
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (i == 3 && c == '+') digit = 0;  // Rust's parser takes a sign
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

namespace {

/// A decoder that is just a way to make its sink.
class SinkDecoder final : public Decoder {
 public:
  using Make = std::function<PieceSinkPtr(PieceSinkPtr)>;
  explicit SinkDecoder(Make make) : make_(std::move(make)) {}
  PieceSinkPtr Start(PieceSinkPtr next) const override { return make_(std::move(next)); }

 private:
  Make make_;
};

template <typename Sink, typename... Options>
DecoderPtr DecoderOf(Options... options) {
  return std::make_unique<SinkDecoder>([options...](PieceSinkPtr next) -> PieceSinkPtr {
    return std::make_unique<Sink>(std::move(next), options...);
  });
}

class PassOn : public PieceSink {
 public:
  explicit PassOn(PieceSinkPtr next) : next_(std::move(next)) {}

 protected:
  PieceSinkPtr next_;
};

/// A step that needs whole pieces.
class WholePieces : public PassOn {
 public:
  using PassOn::PassOn;
  void Part(std::string_view text) final { piece_ += text; }
  void End() final {
    std::string piece;
    piece.swap(piece_);
    Whole(std::move(piece));
  }
  void Finish() final {
    Last();
    next_->Finish();
  }

 protected:
  virtual void Whole(std::string piece) = 0;
  virtual void Last() {}

 private:
  std::string piece_;
};

class ByteLevelSink final : public WholePieces {
 public:
  using WholePieces::WholePieces;

 protected:
  void Whole(std::string piece) override {
    const auto bytes = FromByteLevel(piece);
    Pass(bytes ? *bytes : piece);
  }
  void Last() override {
    std::string text;
    joiner_.Flush(text);
    next_->Part(text);
    next_->End();
  }

 private:
  void Pass(std::string_view bytes) {
    std::string text;
    joiner_.Push(bytes, text);
    next_->Part(text);
  }
  text::Utf8Joiner joiner_;
};

/// A run of byte pieces is a text as a whole, or one U+FFFD for each of them.
class ByteFallbackSink final : public WholePieces {
 public:
  using WholePieces::WholePieces;

 protected:
  void Whole(std::string piece) override {
    const int byte = ByteOfPiece(piece);
    if (byte >= 0) {
      run_ += static_cast<char>(byte);
      return;
    }
    Last();
    next_->Piece(piece);
  }
  void Last() override {
    if (run_.empty()) return;
    if (text::IsValidUtf8(run_)) {
      next_->Piece(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) next_->Piece(text::kReplacementText);
    }
    run_.clear();
  }

 private:
  std::string run_;
};

class FuseSink final : public PassOn {
 public:
  using PassOn::PassOn;
  void Part(std::string_view text) override { next_->Part(text); }
  void End() override {}
  void Finish() override {
    next_->End();
    next_->Finish();
  }
};

/// Takes characters off both ends of each piece; holds back only what may be at the end.
class StripSink final : public PassOn {
 public:
  StripSink(PieceSinkPtr next, uint32_t content, size_t start, size_t stop)
      : PassOn(std::move(next)), content_(text::ToUtf8(content)), start_(start), stop_(stop) {}

  void Part(std::string_view text) override {
    while (leading_ && taken_ < start_ && text.starts_with(content_)) {
      text.remove_prefix(content_.size());
      ++taken_;
    }
    if (text.empty()) return;
    leading_ = false;
    size_t count = 0;
    size_t end = text.size();
    while (count < stop_ && text.substr(0, end).ends_with(content_)) {
      end -= content_.size();
      ++count;
    }
    if (end > 0) {
      Release(held_);
      next_->Part(text.substr(0, end));
      held_ = count;
      return;
    }
    held_ += count;
    if (held_ > stop_) Release(held_ - stop_);
  }
  void End() override {
    next_->End();
    held_ = taken_ = 0;
    leading_ = true;
  }
  void Finish() override { next_->Finish(); }

 private:
  void Release(size_t count) {
    for (size_t i = 0; i < count; ++i) next_->Part(content_);
    held_ -= count;
  }
  std::string content_;
  size_t start_, stop_;
  size_t taken_ = 0, held_ = 0;
  bool leading_ = true;
};

class ReplaceSink final : public WholePieces {
 public:
  ReplaceSink(PieceSinkPtr next, std::shared_ptr<const text::Regex> pattern, std::string content)
      : WholePieces(std::move(next)), pattern_(std::move(pattern)), content_(std::move(content)) {}

 protected:
  void Whole(std::string piece) override {
    std::string out;
    size_t done = 0;
    if (!piece.empty()) {
      pattern_->ForEach(piece, scratch_, [&](text::Regex::Match match) {
        out.append(piece, done, match.begin - done);
        out += content_;
        done = match.end;
      });
    }
    out.append(piece, done);
    next_->Piece(out);
  }

 private:
  std::shared_ptr<const text::Regex> pattern_;
  std::string content_;
  text::Regex::Scratch scratch_;
};

class MetaspaceSink final : public WholePieces {
 public:
  MetaspaceSink(PieceSinkPtr next, uint32_t replacement, bool drop_first)
      : WholePieces(std::move(next)), replacement_(replacement), drop_(drop_first) {}

 protected:
  void Whole(std::string piece) override {
    std::string out;
    for (size_t at = 0; at < piece.size();) {
      const uint32_t c = text::NextCodePoint(piece, at);
      if (c != replacement_) {
        text::AppendUtf8(out, c);
      } else if (!drop_) {
        out += ' ';
      }
    }
    drop_ = false;
    next_->Piece(out);
  }

 private:
  uint32_t replacement_;
  bool drop_;  ///< the first piece loses all of them
};

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {  // Rust: before and after every character
    std::string out(to);
    for (size_t at = 0; at < text.size();) {
      text::AppendUtf8(out, text::NextCodePoint(text, at));
      out += to;
    }
    text = std::move(out);
    return;
  }
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void CleanUp(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
}

class WordPieceSink final : public WholePieces {
 public:
  WordPieceSink(PieceSinkPtr next, std::string prefix, bool cleanup)
      : WholePieces(std::move(next)), prefix_(std::move(prefix)), cleanup_(cleanup) {}

 protected:
  void Whole(std::string piece) override {
    if (!first_) {
      if (piece.starts_with(prefix_)) {
        piece.erase(0, prefix_.size());
      } else {
        piece.insert(0, " ");
      }
    }
    first_ = false;
    if (cleanup_) CleanUp(piece);
    next_->Piece(piece);
  }

 private:
  std::string prefix_;
  bool cleanup_;
  bool first_ = true;
};

/// The suffix becomes a space, but not in the last piece: one is always held back.
class BpeSink final : public WholePieces {
 public:
  BpeSink(PieceSinkPtr next, std::string suffix)
      : WholePieces(std::move(next)), suffix_(std::move(suffix)) {}

 protected:
  void Whole(std::string piece) override {
    if (holds_) Pass(" ");
    held_ = std::move(piece);
    holds_ = true;
  }
  void Last() override {
    if (holds_) Pass("");
    holds_ = false;
  }

 private:
  void Pass(std::string_view space) {
    ReplaceAll(held_, suffix_, space);
    next_->Piece(held_);
  }
  std::string suffix_, held_;
  bool holds_ = false;
};

class CtcSink final : public WholePieces {
 public:
  CtcSink(PieceSinkPtr next, std::string pad, std::string delimiter, bool cleanup)
      : WholePieces(std::move(next)),
        pad_(std::move(pad)),
        delimiter_(std::move(delimiter)),
        cleanup_(cleanup) {}

 protected:
  void Whole(std::string piece) override {
    if (any_ && piece == previous_) return;
    previous_ = piece;
    any_ = true;
    ReplaceAll(piece, pad_, "");
    if (cleanup_) {
      CleanUp(piece);
      ReplaceAll(piece, delimiter_, " ");
    }
    if (!piece.empty()) next_->Piece(piece);
  }

 private:
  std::string pad_, delimiter_, previous_;
  bool cleanup_;
  bool any_ = false;
};

class JoinSink final : public PassOn {
 public:
  using PassOn::PassOn;
  void Part(std::string_view text) override {
    if (after_one_) next_->Part(" ");
    after_one_ = false;
    next_->Part(text);
  }
  void End() override { after_one_ = true; }
  void Finish() override {
    next_->End();
    next_->Finish();
  }

 private:
  bool after_one_ = false;
};

class TextSink final : public PieceSink {
 public:
  explicit TextSink(std::string* out) : out_(out) {}
  void Part(std::string_view text) override { joiner_.Push(text, *out_); }
  void End() override { joiner_.Flush(*out_); }
  void Finish() override { joiner_.Flush(*out_); }

 private:
  std::string* out_;
  text::Utf8Joiner joiner_;
};

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(std::vector<DecoderPtr> steps) : steps_(std::move(steps)) {}
  PieceSinkPtr Start(PieceSinkPtr next) const override {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      next = (*step)->Start(std::move(next));
    }
    return next;
  }

 private:
  std::vector<DecoderPtr> steps_;
};

}  // namespace

DecoderPtr MakeDecoderSequence(std::vector<DecoderPtr> steps) {
  return std::make_unique<DecoderSequence>(std::move(steps));
}
DecoderPtr MakeByteLevelDecoder() { return DecoderOf<ByteLevelSink>(); }
DecoderPtr MakeByteFallbackDecoder() { return DecoderOf<ByteFallbackSink>(); }
DecoderPtr MakeFuseDecoder() { return DecoderOf<FuseSink>(); }
DecoderPtr MakeStripDecoder(uint32_t content, size_t start, size_t stop) {
  return DecoderOf<StripSink>(content, start, stop);
}
DecoderPtr MakeReplaceDecoder(text::Regex pattern, std::string content) {
  return DecoderOf<ReplaceSink>(std::make_shared<const text::Regex>(std::move(pattern)),
                                std::move(content));
}
DecoderPtr MakeMetaspaceDecoder(uint32_t replacement, bool drop_first) {
  return DecoderOf<MetaspaceSink>(replacement, drop_first);
}
DecoderPtr MakeWordPieceDecoder(std::string prefix, bool cleanup) {
  return DecoderOf<WordPieceSink>(std::move(prefix), cleanup);
}
DecoderPtr MakeBpeDecoder(std::string suffix) { return DecoderOf<BpeSink>(std::move(suffix)); }
DecoderPtr MakeCtcDecoder(std::string pad, std::string word_delimiter, bool cleanup) {
  return DecoderOf<CtcSink>(std::move(pad), std::move(word_delimiter), cleanup);
}
DecoderPtr MakeJoinDecoder() { return DecoderOf<JoinSink>(); }
PieceSinkPtr MakeTextSink(std::string* out) { return std::make_unique<TextSink>(out); }

}  // namespace oort::tokenizer
