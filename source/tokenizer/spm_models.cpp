// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cfloat>
#include <unordered_map>

#include "oort/error.h"
#include "text/utf8.h"
#include "tokenizer/spm.h"

namespace oort::tokenizer {
namespace {

Error BadPieces(const std::string& message) {
  return {ErrorCode::kInvalidModel, "the sentencepiece vocabulary " + message};
}

Vocabulary ByIds(const std::vector<std::string>& pieces) {
  Vocabulary out;
  for (size_t i = 0; i < pieces.size(); ++i) out.Add(pieces[i], static_cast<int64_t>(i));
  return out;
}

class SpmModel : public Model {
 public:
  SpmModel(SpmVocabulary pieces, SpmOptions options)
      : Model(ByIds(pieces.pieces)), options_(options), all_(std::move(pieces)) {
    if (all_.pieces.empty()) throw BadPieces("is empty");
    if (all_.unk < 0 || static_cast<size_t>(all_.unk) >= all_.pieces.size()) {
      throw BadPieces("has no unknown piece");
    }
    byte_ids_.fill(-1);
    for (size_t i = 0; i < all_.pieces.size(); ++i) Classify(static_cast<int32_t>(i));
    if (all_.byte_fallback &&
        std::any_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id < 0; })) {
      throw BadPieces("falls back to bytes, but lacks some of them");
    }
    // f32 sums depend on all of the text before them, so only f64 ones are taken apart.
    const bool separable = options_.algorithm == SpmAlgorithm::kBpe ||
                           (options_.algorithm == SpmAlgorithm::kUnigram && options_.f64);
    cuts_at_spaces_ = separable && NoPieceCrossesSpaces() && FindUsable(kSpaceSymbol) >= 0;
  }
  bool worth_caching() const override { return cuts_at_spaces_; }

 protected:
  PieceType TypeOf(int32_t id) const { return all_.types[static_cast<size_t>(id)]; }
  float ScoreOf(int32_t id) const { return all_.scores[static_cast<size_t>(id)]; }

  /// Pieces that text can become: normal, user-defined and unused ones.
  int32_t FindUsable(std::string_view text) const {
    return usable_.Find(
        text, [&](int32_t id) -> std::string_view { return all_.pieces[static_cast<size_t>(id)]; });
  }
  /// Control pieces and the like come first, as in sentencepiece.
  int32_t FindAny(std::string_view text) const {
    const int32_t id = reserved_.Find(text, [&](int32_t known) -> std::string_view {
      return all_.pieces[static_cast<size_t>(known)];
    });
    if (id >= 0) return id;
    const int32_t usable = FindUsable(text);
    return usable >= 0 ? usable : all_.unk;
  }

  /// Length of the user-defined piece at the front of the text, or of its first character.
  size_t FrontLength(std::string_view text, bool& user_defined) const {
    const ByteTrie::Found found = user_defined_.LongestPrefix(text);
    user_defined = found.length > 0;
    return user_defined ? found.length : text::LengthFromLead(static_cast<unsigned char>(text[0]));
  }

  /// Unknown text becomes bytes, or one unknown for all that stand together.
  void Append(std::string_view piece, int32_t id, bool& after_unknown,
              std::vector<int32_t>& ids) const {
    const bool unknown = id == all_.unk;
    if (unknown && all_.byte_fallback) {
      for (const char byte : piece) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    } else if (!unknown || !after_unknown) {
      ids.push_back(id);
    }
    after_unknown = unknown;
  }

  SpmOptions options_;
  SpmVocabulary all_;
  std::array<int32_t, 256> byte_ids_{};
  ByteTrie user_defined_;
  bool has_unused_ = false;

 private:
  void Classify(int32_t id) {
    const std::string& piece = all_.pieces[static_cast<size_t>(id)];
    if (piece.empty()) return;  // nothing that a text could become
    const PieceType type = TypeOf(id);
    const bool usable =
        type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused;
    const auto key_of = [&](int32_t known) -> std::string_view {
      return all_.pieces[static_cast<size_t>(known)];
    };
    StringIndex& index = usable ? usable_ : reserved_;
    if (index.Find(piece, key_of) < 0) index.Add(piece, id, key_of);
    if (type == PieceType::kUserDefined) user_defined_.Add(piece, id);
    if (type == PieceType::kUnused) has_unused_ = true;
    const int byte = ByteOfPiece(piece);
    if (type == PieceType::kByte && byte >= 0) byte_ids_[static_cast<size_t>(byte)] = id;
  }

  StringIndex usable_, reserved_;
};

/// Merges the neighbours whose joint piece has the highest score, the leftmost of equals.
class SpmBpe final : public SpmModel {
 public:
  using SpmModel::SpmModel;

  void Encode(std::string_view text, std::vector<int32_t>& ids,
              ModelScratch& scratch) const override {
    SplitSymbols(text, scratch.symbols);
    Splits splits;
    MergeAll(text, scratch, splits);
    bool after_unknown = false;
    for (int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<size_t>(i)].next) {
      const auto& symbol = scratch.symbols[static_cast<size_t>(i)];
      AppendSymbol(text.substr(symbol.begin, symbol.length), splits, after_unknown, ids);
    }
  }

 private:
  using Symbol = ModelScratch::Symbol;
  using Candidate = ModelScratch::Candidate;
  /// Of unused pieces: how long the left one of the two was that merged into it.
  using Splits = std::unordered_map<std::string_view, size_t>;

  void SplitSymbols(std::string_view text, std::vector<Symbol>& symbols) const {
    symbols.clear();
    for (size_t at = 0; at < text.size();) {
      bool frozen = false;
      const size_t length = FrontLength(text.substr(at), frozen);
      if (options_.bytes_first && FindUsable(text.substr(at, length)) < 0) frozen = true;
      const auto index = static_cast<int32_t>(symbols.size());
      symbols.push_back({-1, index - 1, index + 1, static_cast<uint32_t>(at),
                         static_cast<uint32_t>(length), 0, frozen});
      at += length;
    }
    symbols.back().next = -1;
  }

  static bool Worse(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }

  void MergeAll(std::string_view text, ModelScratch& scratch, Splits& splits) const {
    auto& symbols = scratch.symbols;
    auto& heap = scratch.heap;
    heap.clear();
    const auto offer = [&](int32_t left, int32_t right) {
      if (left < 0 || right < 0) return;
      const Symbol& a = symbols[static_cast<size_t>(left)];
      const Symbol& b = symbols[static_cast<size_t>(right)];
      if (a.frozen || b.frozen) return;
      const std::string_view joint = text.substr(a.begin, a.length + b.length);
      const int32_t id = FindUsable(joint);
      if (id < 0) return;
      heap.push_back({ScoreOf(id), 0, left, right, id, a.length + b.length});
      std::push_heap(heap.begin(), heap.end(), Worse);
      if (has_unused_ && TypeOf(id) == PieceType::kUnused) splits[joint] = a.length;
    };
    for (size_t i = 1; i < symbols.size(); ++i) {
      offer(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
    }
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), Worse);
      const Candidate top = heap.back();
      heap.pop_back();
      Symbol& a = symbols[static_cast<size_t>(top.left)];
      Symbol& b = symbols[static_cast<size_t>(top.right)];
      if (a.length == 0 || b.length == 0 || a.length + b.length != top.length) continue;
      a.length = top.length;
      b.length = 0;
      a.next = b.next;
      if (b.next >= 0) symbols[static_cast<size_t>(b.next)].previous = top.left;
      offer(a.previous, top.left);
      offer(top.left, a.next);
    }
  }

  /// An unused piece falls apart again into what it was made of.
  void AppendSymbol(std::string_view piece, const Splits& splits, bool& after_unknown,
                    std::vector<int32_t>& ids) const {
    std::vector<std::string_view> open = {piece};
    while (!open.empty()) {
      const std::string_view top = open.back();
      open.pop_back();
      const int32_t id = FindAny(top);
      const auto split = TypeOf(id) == PieceType::kUnused ? splits.find(top) : splits.end();
      if (split == splits.end()) {
        Append(top, id, after_unknown, ids);
        continue;
      }
      open.push_back(top.substr(split->second));
      open.push_back(top.substr(0, split->second));
    }
  }
};

class SpmUnigram final : public SpmModel {
 public:
  SpmUnigram(SpmVocabulary pieces, SpmOptions options) : SpmModel(std::move(pieces), options) {
    float least = FLT_MAX;
    for (size_t i = 0; i < all_.pieces.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const PieceType type = TypeOf(id);
      if (type == PieceType::kNormal) {
        least = std::min(least, ScoreOf(id));
        most_ = std::max(most_, ScoreOf(id));
      }
      const bool usable = type == PieceType::kNormal || type == PieceType::kUserDefined ||
                          (type == PieceType::kUnused && options_.f64);
      if (usable && !all_.pieces[i].empty()) trie_.Add(all_.pieces[i], id);
    }
    constexpr float kPenalty = 10;
    unk_score_ = least - kPenalty;
  }

  void Encode(std::string_view text, std::vector<int32_t>& ids,
              ModelScratch& scratch) const override {
    FindBest(text, scratch.steps);
    scratch.ranges.clear();
    for (size_t end = text.size(); end > 0; end = scratch.ranges.back().first) {
      scratch.ranges.emplace_back(static_cast<size_t>(scratch.steps[end].begin), end);
    }
    bool after_unknown = false;
    for (auto range = scratch.ranges.rbegin(); range != scratch.ranges.rend(); ++range) {
      Append(text.substr(range->first, range->second - range->first),
             scratch.steps[range->second].id, after_unknown, ids);
    }
  }

 private:
  using Step = ModelScratch::Step;

  double PieceScore(int32_t id, size_t length) const {
    if (TypeOf(id) != PieceType::kUserDefined) return ScoreOf(id);
    // As sentencepiece 0.2.2 has it: nothing of the same length can be better.
    if (options_.f64) return 0;
    return static_cast<float>(static_cast<double>(static_cast<float>(length) * most_) - 0.1);
  }

  void FindBest(std::string_view text, std::vector<Step>& steps) const {
    steps.assign(text.size() + 1, Step{0, 0, -1, -1});
    for (size_t begin = 0; begin < text.size();) {
      const double here = options_.f64 ? steps[begin].score : double{steps[begin].score32};
      const size_t length = text::LengthFromLead(static_cast<unsigned char>(text[begin]));
      bool single = false;
      uint32_t node = 0;
      for (size_t end = begin; end < text.size();) {
        node = trie_.Child(node, static_cast<unsigned char>(text[end]));
        if (node == ByteTrie::kNoNode) break;
        ++end;
        const int32_t id = trie_.Number(node);
        if (id < 0) continue;
        Offer(steps[end], PieceScore(id, end - begin) + here, id, begin);
        single = single || end - begin == length;
      }
      if (!single) {
        const double score = options_.f64 ? here + double{unk_score_}
                                          : double{unk_score_ + static_cast<float>(here)};
        Offer(steps[begin + length], score, all_.unk, begin);
      }
      begin += length;
    }
  }

  void Offer(Step& step, double score, int32_t id, size_t begin) const {
    const auto rounded = static_cast<float>(score);
    const bool better = options_.f64 ? score > step.score : rounded > step.score32;
    if (step.begin >= 0 && !better) return;
    step = {score, rounded, id, static_cast<int64_t>(begin)};
  }

  ByteTrie trie_;
  float unk_score_ = 0;
  float most_ = -FLT_MAX;  ///< the highest score
};

/// One piece for each character, or for each word.
class SpmSimple final : public SpmModel {
 public:
  using SpmModel::SpmModel;
  void Encode(std::string_view text, std::vector<int32_t>& ids, ModelScratch&) const override {
    bool after_unknown = false;
    while (!text.empty()) {
      bool user_defined = false;
      const size_t length = options_.algorithm == SpmAlgorithm::kCharacter
                                ? FrontLength(text, user_defined)
                                : WordLength(text);
      Append(text.substr(0, length), FindAny(text.substr(0, length)), after_unknown, ids);
      text.remove_prefix(length);
    }
  }

 private:
  /// sentencepiece's words always begin with their space, whatever the option says.
  static size_t WordLength(std::string_view text) {
    const size_t next = text.find(kSpaceSymbol, 1);
    return next == std::string_view::npos ? text.size() : next;
  }
};

}  // namespace

ModelPtr MakeSpm(SpmVocabulary vocabulary, SpmOptions options) {
  switch (options.algorithm) {
    case SpmAlgorithm::kUnigram:
      return std::make_unique<SpmUnigram>(std::move(vocabulary), options);
    case SpmAlgorithm::kBpe: return std::make_unique<SpmBpe>(std::move(vocabulary), options);
    default: return std::make_unique<SpmSimple>(std::move(vocabulary), options);
  }
}

}  // namespace oort::tokenizer
