// SPDX-License-Identifier: MIT
#include "tokenizer/vocabulary.h"

#include "oort/error.h"

namespace oort::tokenizer {

void Vocabulary::Add(std::string_view piece, int64_t id) {
  if (id < 0 || id > kMaxTokenId) {
    throw Error(ErrorCode::kInvalidModel, "the vocabulary gives '" + std::string(piece) +
                                              "' the id " + std::to_string(id) +
                                              ", expected 0 to " + std::to_string(kMaxTokenId));
  }
  if (Has(id)) {
    throw Error(ErrorCode::kInvalidModel, "the vocabulary gives the id " + std::to_string(id) +
                                              " to both '" + std::string(Piece(id)) + "' and '" +
                                              std::string(piece) + "'");
  }
  if (id >= size()) {
    pieces_.resize(static_cast<size_t>(id) + 1);
    present_.resize(static_cast<size_t>(id) + 1);
  }
  pieces_[static_cast<size_t>(id)] = piece;
  present_[static_cast<size_t>(id)] = true;
  ++count_;
  const auto key_of = [&](int32_t known) -> std::string_view { return piece_of(known); };
  if (Find(piece) >= 0) {
    index_.Renumber(piece, static_cast<int32_t>(id), key_of);
  } else {
    index_.Add(piece, static_cast<int32_t>(id), key_of);
  }
}

}  // namespace oort::tokenizer
