// SPDX-License-Identifier: MIT
// Models without merges: Unigram, WordPiece, WordLevel.
#include <algorithm>
#include <limits>

#include "oort/error.h"
#include "text/utf8.h"
#include "tokenizer/model.h"

namespace oort::tokenizer {

size_t EndOfSpacedWord(std::string_view text) {
  size_t at = 0;
  while (text.substr(at).starts_with(kSpaceSymbol)) at += kSpaceSymbol.size();
  const size_t next = text.find(kSpaceSymbol, at);
  return next == std::string_view::npos ? text.size() : next;
}

bool Model::NoPieceCrossesSpaces() const {
  if (vocabulary_.Find(kSpaceSymbol) < 0) return false;
  for (int64_t id = 0; id < vocabulary_.size(); ++id) {
    if (EndOfSpacedWord(vocabulary_.Piece(id)) != vocabulary_.Piece(id).size()) return false;
  }
  return true;
}

namespace {

class Unigram final : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unk,
          bool byte_fallback)
      : Model(std::move(vocabulary)),
        scores_(std::move(scores)),
        bytes_(BytePieces(vocabulary_)),
        unk_(unk),
        byte_fallback_(byte_fallback) {
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      trie_.Add(vocabulary_.Piece(id), vocabulary_.Find(vocabulary_.Piece(id)));
    }
    double least = std::numeric_limits<double>::infinity();
    for (const double score : scores_) least = std::min(least, score);
    constexpr double kPenalty = 10;
    unk_score_ = least - kPenalty;
  }

  void Encode(std::string_view word, std::vector<int32_t>& ids,
              ModelScratch& scratch) const override {
    FindBest(word, scratch.steps);
    Backtrack(word.size(), scratch);
    for (auto range = scratch.ranges.rbegin(); range != scratch.ranges.rend(); ++range) {
      AppendPiece(word.substr(range->first, range->second - range->first), ids);
    }
  }

 private:
  using Step = ModelScratch::Step;

  void FindBest(std::string_view word, std::vector<Step>& steps) const {
    steps.assign(word.size() + 1, Step{0, 0, -1, -1});
    for (size_t begin = 0; begin < word.size();) {
      const double here = steps[begin].score;
      const size_t length = text::LengthFromLead(static_cast<unsigned char>(word[begin]));
      bool single = false;
      uint32_t node = 0;
      for (size_t end = begin; end < word.size();) {
        node = trie_.Child(node, static_cast<unsigned char>(word[end]));
        if (node == ByteTrie::kNoNode) break;
        ++end;
        const int32_t id = trie_.Number(node);
        if (id < 0) continue;
        Offer(steps[end], here + scores_[static_cast<size_t>(id)], id, begin);
        single = single || end - begin == length;
      }
      if (!single) {
        if (!unk_) throw MissingUnknown();
        Offer(steps[begin + length], here + unk_score_, *unk_, begin);
      }
      begin += length;
    }
  }

  static void Offer(Step& step, double score, int32_t id, size_t begin) {
    if (step.begin >= 0 && !(score > step.score)) return;
    step = {score, 0, id, static_cast<int64_t>(begin)};
  }

  /// The best pieces from the end, unknown neighbours as one.
  void Backtrack(size_t size, ModelScratch& scratch) const {
    scratch.ranges.clear();
    bool after_unknown = false;
    for (size_t end = size; end > 0;) {
      const Step& step = scratch.steps[end];
      const auto begin = static_cast<size_t>(step.begin);
      const bool unknown = unk_ && step.id == *unk_;
      if (unknown && after_unknown) {
        scratch.ranges.back().first = begin;
      } else {
        scratch.ranges.emplace_back(begin, end);
      }
      after_unknown = unknown;
      end = begin;
    }
  }

  void AppendPiece(std::string_view piece, std::vector<int32_t>& ids) const {
    const int32_t id = vocabulary_.Find(piece);
    if (id >= 0) {
      ids.push_back(id);
      return;
    }
    const auto known = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)] >= 0; };
    if (byte_fallback_ && std::all_of(piece.begin(), piece.end(), known)) {
      for (const char byte : piece) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
      return;
    }
    if (!unk_) throw MissingUnknown();
    ids.push_back(*unk_);
  }

  static Error MissingUnknown() {
    return {ErrorCode::kInvalidModel,
            "the Unigram vocabulary has no unknown token (unk_id), which this text needs"};
  }

  std::vector<double> scores_;
  ByteTrie trie_;
  std::array<int32_t, 256> bytes_;
  std::optional<int32_t> unk_;
  bool byte_fallback_;
  double unk_score_ = 0;
};

int32_t NeededUnknown(const Vocabulary& vocabulary, const std::string& unk) {
  const int32_t id = vocabulary.Find(unk);
  if (id < 0) {
    throw Error(ErrorCode::kInvalidModel,
                "the vocabulary lacks its unknown token '" + unk + "', which this text needs");
  }
  return id;
}

class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary vocabulary, std::string unk, std::string prefix, int64_t max_characters)
      : Model(std::move(vocabulary)),
        unk_(std::move(unk)),
        prefix_(std::move(prefix)),
        max_characters_(max_characters) {
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      longest_ = std::max(longest_, vocabulary_.Piece(id).size());
    }
  }

  void Encode(std::string_view word, std::vector<int32_t>& ids,
              ModelScratch& scratch) const override {
    const size_t first = ids.size();
    bool known = text::CountCodePoints(word) <= max_characters_;
    for (size_t begin = 0; known && begin < word.size();) {
      size_t end = std::min(word.size(), begin + longest_);
      while (end < word.size() && text::IsContinuation(word[end])) --end;
      int32_t id = -1;
      for (; end > begin; end = text::PreviousStart(word, end)) {
        scratch.text = begin > 0 ? prefix_ : "";
        scratch.text += word.substr(begin, end - begin);
        id = vocabulary_.Find(scratch.text);
        if (id >= 0) break;
      }
      known = id >= 0;
      if (known) ids.push_back(id);
      begin = end;
    }
    if (known) return;
    ids.resize(first);
    ids.push_back(NeededUnknown(vocabulary_, unk_));
  }

 private:
  std::string unk_, prefix_;
  int64_t max_characters_;
  size_t longest_ = 0;
};

class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::string unk)
      : Model(std::move(vocabulary)), unk_(std::move(unk)) {}
  void Encode(std::string_view word, std::vector<int32_t>& ids, ModelScratch&) const override {
    const int32_t id = vocabulary_.Find(word);
    ids.push_back(id >= 0 ? id : NeededUnknown(vocabulary_, unk_));
  }
  bool worth_caching() const override { return false; }

 private:
  std::string unk_;
};

}  // namespace

ModelPtr MakeUnigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unk,
                     bool byte_fallback) {
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unk, byte_fallback);
}
ModelPtr MakeWordPiece(Vocabulary vocabulary, std::string unk, std::string continuing_prefix,
                       int64_t max_characters) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(unk),
                                     std::move(continuing_prefix), max_characters);
}
ModelPtr MakeWordLevel(Vocabulary vocabulary, std::string unk) {
  return std::make_unique<WordLevel>(std::move(vocabulary), std::move(unk));
}

}  // namespace oort::tokenizer
