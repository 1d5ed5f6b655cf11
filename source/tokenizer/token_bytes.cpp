// SPDX-License-Identifier: MIT
// What single tokens add to a text. How pieces are decoded shows in what becomes of pieces made up
// for it: so this holds for every decoder, whatever file it came from.
#include "core/guard.h"
#include "oort/error.h"
#include "oort/tokenizer.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/pipeline.h"

namespace oort {
namespace {

/// Decodes pieces one after the other.
class PieceProbe {
 public:
  explicit PieceProbe(const tokenizer::Decoder& decoder)
      : sink_(decoder.Start(tokenizer::MakeTextSink(&out_))) {}
  /// What comes out when this piece goes in.
  std::string Push(std::string_view piece) {
    out_.clear();
    sink_->Piece(piece);
    return out_;
  }

 private:
  std::string out_;
  tokenizer::PieceSinkPtr sink_;
};

}  // namespace

std::vector<std::string> Tokenizer::TokenBytes() const {
  return Guarded([&] {
    PieceProbe probe(*impl_->pipeline.decoder);
    // A piece that means itself in every vocabulary stands behind each token, so that all that the
    // token adds is there.
    const std::string mark = "a";
    probe.Push(mark);
    const std::string plain = probe.Push(mark);
    const auto added = [&](std::string_view piece) -> std::string {
      std::string text = probe.Push(piece);
      text += probe.Push(mark);
      if (!text.ends_with(plain)) {
        throw Error(ErrorCode::kUnsupported,
                    "this tokenizer has tokens whose text depends on those around them");
      }
      text.resize(text.size() - plain.size());
      return text;
    };
    const bool byte_level = added("\xC4\xA0") == " ";  // Ġ
    const bool byte_pieces = added("<0x41>") == "A";
    std::vector<std::string> out(impl_->size);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const auto piece = impl_->TextOf(id);
      if (!piece || impl_->IsSpecial(id)) continue;
      const int byte = byte_pieces ? tokenizer::ByteOfPiece(*piece) : -1;
      if (byte >= 0) {
        out[i] = std::string(1, static_cast<char>(byte));
      } else if (byte_level) {
        out[i] = tokenizer::FromByteLevel(*piece).value_or(std::string(*piece));
      } else {
        out[i] = added(*piece);
      }
    }
    return out;
  });
}

bool Tokenizer::drops_first_space() const {
  return Guarded([&] {
    const std::string piece = std::string(tokenizer::kSpaceSymbol) + "a";
    PieceProbe probe(*impl_->pipeline.decoder);
    const std::string first = probe.Push(piece);
    return probe.Push(piece) == " a" && first == "a";
  });
}

}  // namespace oort
