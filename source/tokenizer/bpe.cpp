// SPDX-License-Identifier: MIT
#include <algorithm>

#include "oort/error.h"
#include "text/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/model.h"

namespace oort::tokenizer {

bool CanTakeBytes(const Vocabulary& vocabulary) {
  const auto& characters = ByteCharacters();
  return std::all_of(characters.begin(), characters.end(),
                     [&](const std::string& c) { return vocabulary.Find(c) >= 0; });
}

std::string BytePiece(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::array<int32_t, 256> BytePieces(const Vocabulary& vocabulary) {
  std::array<int32_t, 256> ids{};
  for (size_t byte = 0; byte < 256; ++byte) {
    ids[byte] = vocabulary.Find(BytePiece(static_cast<unsigned char>(byte)));
  }
  return ids;
}

namespace {

using Symbol = ModelScratch::Symbol;
using Candidate = ModelScratch::Candidate;

Error UnknownPiece(const std::string& piece) {
  return {ErrorCode::kInvalidModel,
          "a merge of the vocabulary names '" + piece + "', which is no token"};
}

class Bpe final : public Model {
  auto RawOf() const {
    return [this](int32_t id) -> std::string_view { return raw_[static_cast<size_t>(id)]; };
  }
  int32_t FindRaw(std::string_view bytes) const { return raw_index_.Find(bytes, RawOf()); }

 public:
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options, bool lenient)
      : Model(std::move(vocabulary)),
        options_(std::move(options)),
        merges_(merges.size()),
        bytes_(BytePieces(vocabulary_)) {
    for (size_t i = 0; i < merges.size(); ++i) {
      AddMerge(merges[i].first, merges[i].second, i, lenient);
    }
    if (options_.unk) unk_ = vocabulary_.Find(*options_.unk);
    if (options_.words_are_bytes) {
      for (size_t byte = 0; byte < 256; ++byte) {
        byte_ids_[byte] = vocabulary_.Find(ByteCharacters()[byte]);
      }
    }
    if (options_.words_are_bytes && options_.ignore_merges) IndexRawPieces();
    // Unknown characters that vanish would let the spaces around them meet.
    const auto known = [](int32_t id) { return id >= 0; };
    const bool nothing_vanishes =
        unk_ >= 0 || (options_.byte_fallback && std::all_of(bytes_.begin(), bytes_.end(), known));
    cuts_at_spaces_ = nothing_vanishes && !options_.words_are_bytes && !options_.ignore_merges &&
                      options_.continuing_prefix.empty() && options_.word_suffix.empty() &&
                      NoPieceCrossesSpaces();
    for (unsigned char c = 0; c < 128; ++c) {
      const char text = static_cast<char>(c);
      ascii_[c] = vocabulary_.Find({&text, 1});
    }
  }

  void Encode(std::string_view word, std::vector<int32_t>& ids,
              ModelScratch& scratch) const override {
    if (options_.ignore_merges) {
      const int32_t id = options_.words_are_bytes ? FindRaw(word) : vocabulary_.Find(word);
      if (id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    scratch.symbols.clear();
    if (options_.words_are_bytes) {
      for (const char byte : word) Push(scratch, byte_ids_[static_cast<unsigned char>(byte)]);
    } else {
      PushCharacters(word, scratch);
    }
    if (scratch.symbols.empty()) return;
    constexpr size_t kShort = 48;  // from here on a heap beats looking at all pairs
    if (scratch.symbols.size() <= kShort) {
      MergeShort(scratch.symbols);
    } else {
      MergeLong(scratch);
    }
    for (int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<size_t>(i)].next) {
      ids.push_back(scratch.symbols[static_cast<size_t>(i)].id);
    }
  }

 private:
  void AddMerge(const std::string& left, const std::string& right, size_t rank, bool lenient) {
    const size_t prefix = options_.continuing_prefix.size();
    const int32_t a = vocabulary_.Find(left);
    const int32_t b = vocabulary_.Find(right);
    const std::string merged = left + (right.size() >= prefix ? right.substr(prefix) : right);
    const int32_t id = vocabulary_.Find(merged);
    if (a < 0 || b < 0 || id < 0 || right.size() < prefix) {
      if (lenient) return;
      throw UnknownPiece(a < 0 ? left : b < 0 ? right : merged);
    }
    merges_.Set(a, b, {static_cast<uint32_t>(rank), id});
  }

  void IndexRawPieces() {
    raw_.resize(static_cast<size_t>(vocabulary_.size()));
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const auto bytes = FromByteLevel(vocabulary_.Piece(id));
      if (!bytes || bytes->empty() || FindRaw(*bytes) >= 0) continue;
      raw_[static_cast<size_t>(id)] = *bytes;
      raw_index_.Add(*bytes, static_cast<int32_t>(id), RawOf());
    }
  }

  static void Push(ModelScratch& scratch, int32_t id) {
    const auto index = static_cast<int32_t>(scratch.symbols.size());
    if (index > 0) scratch.symbols.back().next = index;
    scratch.symbols.push_back({id, index - 1, -1, 0, 1, MergeTable::kNone, false});
  }

  int32_t FindCharacter(std::string_view character, bool first, bool last,
                        std::string& text) const {
    const bool plain =
        (first || options_.continuing_prefix.empty()) && (!last || options_.word_suffix.empty());
    if (plain && character.size() == 1) return ascii_[static_cast<unsigned char>(character[0])];
    if (plain) return vocabulary_.Find(character);
    text.clear();
    if (!first) text += options_.continuing_prefix;
    text += character;
    if (last) text += options_.word_suffix;
    return vocabulary_.Find(text);
  }

  void PushCharacters(std::string_view word, ModelScratch& scratch) const {
    bool pending = false;  // an unknown that may still swallow the next one
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      at += text::LengthFromLead(static_cast<unsigned char>(word[at]));
      const std::string_view character = word.substr(begin, at - begin);
      const bool last = at == word.size();
      const int32_t id = FindCharacter(character, begin == 0, last, scratch.text);
      if (id >= 0) {
        if (pending) Push(scratch, unk_);
        pending = false;
        Push(scratch, id);
        continue;
      }
      // The fallback is for all bytes of the piece, affixes included, or not at all.
      if (options_.byte_fallback && PushBytes(character, begin == 0, last, scratch)) continue;
      if (!options_.unk) continue;
      if (unk_ < 0) {
        throw Error(ErrorCode::kInvalidModel, "the vocabulary lacks its unknown token '" +
                                                  *options_.unk + "', which this text needs");
      }
      if (pending && !options_.fuse_unk) Push(scratch, unk_);
      pending = true;
    }
    if (pending) Push(scratch, unk_);
  }

  bool PushBytes(std::string_view character, bool first, bool last, ModelScratch& scratch) const {
    std::string text;
    if (!first) text += options_.continuing_prefix;
    text += character;
    if (last) text += options_.word_suffix;
    const auto known = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)] >= 0; };
    if (!std::all_of(text.begin(), text.end(), known)) return false;
    for (const char byte : text) Push(scratch, bytes_[static_cast<unsigned char>(byte)]);
    return true;
  }

  /// Each turn merges the pair of lowest rank, the leftmost of equals.
  void MergeShort(std::vector<Symbol>& symbols) const {
    const auto rank_of = [&](size_t i) {
      if (symbols[i].next < 0) return MergeTable::kNone;
      return merges_.Find(symbols[i].id, symbols[static_cast<size_t>(symbols[i].next)].id).rank;
    };
    for (size_t i = 0; i < symbols.size(); ++i) symbols[i].rank = rank_of(i);
    for (;;) {
      size_t best = 0;
      uint32_t rank = MergeTable::kNone;
      for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
        if (symbols[static_cast<size_t>(i)].rank >= rank) continue;
        best = static_cast<size_t>(i);
        rank = symbols[best].rank;
      }
      if (rank == MergeTable::kNone) return;
      Join(symbols, best);
      symbols[best].rank = rank_of(best);
      if (symbols[best].previous >= 0) {
        const auto before = static_cast<size_t>(symbols[best].previous);
        symbols[before].rank = rank_of(before);
      }
    }
  }

  void Join(std::vector<Symbol>& symbols, size_t left) const {
    Symbol& a = symbols[left];
    Symbol& b = symbols[static_cast<size_t>(a.next)];
    a.id = merges_.Find(a.id, b.id).id;
    a.next = b.next;
    b.length = 0;
    if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = static_cast<int32_t>(left);
  }

  static bool Later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }

  void MergeLong(ModelScratch& scratch) const {
    std::vector<Symbol>& symbols = scratch.symbols;
    std::vector<Candidate>& heap = scratch.heap;
    heap.clear();
    const auto offer = [&](int32_t left, bool in_order) {
      if (left < 0 || symbols[static_cast<size_t>(left)].next < 0) return;
      const Symbol& a = symbols[static_cast<size_t>(left)];
      const auto merge = merges_.Find(a.id, symbols[static_cast<size_t>(a.next)].id);
      if (merge.rank == MergeTable::kNone) return;
      heap.push_back({0, merge.rank, left, a.next, merge.id, 0});
      if (in_order) std::push_heap(heap.begin(), heap.end(), Later);
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<int32_t>(i), false);
    std::make_heap(heap.begin(), heap.end(), Later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), Later);
      const Candidate top = heap.back();
      heap.pop_back();
      const Symbol& a = symbols[static_cast<size_t>(top.left)];
      if (a.length == 0 || a.next < 0) continue;
      const auto merge = merges_.Find(a.id, symbols[static_cast<size_t>(a.next)].id);
      if (merge.rank == MergeTable::kNone || merge.id != top.id) continue;
      Join(symbols, static_cast<size_t>(top.left));
      offer(symbols[static_cast<size_t>(top.left)].previous, true);
      offer(top.left, true);
    }
  }

  BpeOptions options_;
  MergeTable merges_;
  std::array<int32_t, 256> bytes_;
  std::array<int32_t, 256> byte_ids_{};
  std::array<int32_t, 128> ascii_{};
  std::vector<std::string> raw_;
  StringIndex raw_index_;
  int32_t unk_ = -1;
};

}  // namespace

ModelPtr MakeBpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options, bool lenient) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, std::move(options), lenient);
}

}  // namespace oort::tokenizer
