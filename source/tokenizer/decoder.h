// SPDX-License-Identifier: MIT
// From pieces back to text, step by step and piece by piece: decoding a whole text and decoding a
// stream are the same thing here, so they cannot differ.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace oort::tokenizer {

/// Where pieces go. A piece may come in several parts; End closes it, Finish the whole text.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void Part(std::string_view text) = 0;
  virtual void End() = 0;
  virtual void Finish() = 0;
  /// A special token stood here that is not to be seen.
  virtual void Skip() {}

  void Piece(std::string_view text) {
    Part(text);
    End();
  }
};
using PieceSinkPtr = std::unique_ptr<PieceSink>;

/// One step of decoding; immutable. Its state in the middle of a text is the sink that it makes.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// A sink that passes what it decodes on to `next`.
  virtual PieceSinkPtr Start(PieceSinkPtr next) const = 0;
};
using DecoderPtr = std::unique_ptr<const Decoder>;

DecoderPtr MakeDecoderSequence(std::vector<DecoderPtr> steps);
DecoderPtr MakeByteLevelDecoder();
DecoderPtr MakeByteFallbackDecoder();
DecoderPtr MakeFuseDecoder();
DecoderPtr MakeStripDecoder(uint32_t content, size_t start, size_t stop);
DecoderPtr MakeReplaceDecoder(text::Regex pattern, std::string content);
DecoderPtr MakeMetaspaceDecoder(uint32_t replacement, bool drop_first);
DecoderPtr MakeWordPieceDecoder(std::string prefix, bool cleanup);
DecoderPtr MakeBpeDecoder(std::string suffix);
DecoderPtr MakeCtcDecoder(std::string pad, std::string word_delimiter, bool cleanup);
/// What is done without a decoder: pieces with spaces between them.
DecoderPtr MakeJoinDecoder();

/// All text that comes out, always valid UTF-8.
PieceSinkPtr MakeTextSink(std::string* out);

/// The byte of "<0x0A>", or -1; as the tokenizers library reads it.
int ByteOfPiece(std::string_view piece);

}  // namespace oort::tokenizer
