// SPDX-License-Identifier: MIT
#include "llm/speculation/ngram_drafter.h"

#include <algorithm>
#include <bit>

namespace oort {
namespace {

/// Places of one pair that are looked at: text that is one token over and over has many.
constexpr int kMostLookedAt = 64;

/// The longer the match, the likelier the text goes on as it did.
uint8_t SurenessOf(size_t match) {
  constexpr std::array<size_t, kSurenessClasses> kFrom = {2, 3, 4, 5, 7, 11, 17, 32};
  const auto above = std::ranges::upper_bound(kFrom, match);
  return static_cast<uint8_t>(above - kFrom.begin() - 1);
}

size_t CommonEnd(std::span<const int32_t> tokens, size_t place) {
  size_t common = 0;
  while (common < std::min(place, TokenHistory::kLongestMatch) &&
         tokens[place - 1 - common] == tokens[tokens.size() - 1 - common]) {
    ++common;
  }
  return common;
}

}  // namespace

uint64_t TokenHistory::Hash(int32_t first, int32_t second) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const uint64_t pair = (static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32) |
                        static_cast<uint64_t>(static_cast<uint32_t>(second));
  const uint64_t mixed = (pair ^ (pair >> 29)) * kOdd;
  return mixed ^ (mixed >> 32);
}

/// Room for twice as many tokens as there are, up to the most: then the oldest are forgotten.
void TokenHistory::Resize(std::span<const int32_t> tokens) {
  const size_t room = std::min(kMostTokens, std::bit_ceil(2 * tokens.size()));
  if (room <= before_.size()) return;
  before_.assign(room, 0);
  newest_.assign(2 * room, 0);
  added_ = std::max(tokens.size(), kMostTokens) - kMostTokens + kLeastMatch;
}

/// Enters the places behind all pairs but the last, which is the one that is looked for.
void TokenHistory::Add(std::span<const int32_t> tokens) {
  Resize(tokens);
  for (; added_ < tokens.size(); ++added_) {
    uint32_t& newest = newest_[Hash(tokens[added_ - 2], tokens[added_ - 1]) % newest_.size()];
    before_[added_ % before_.size()] = newest;
    newest = static_cast<uint32_t>(added_);
  }
}

TokenHistory::Match TokenHistory::Find(std::span<const int32_t> tokens) {
  if (tokens.size() <= kLeastMatch || tokens.size() > UINT32_MAX) return {};
  Add(tokens);
  const uint64_t hash = Hash(tokens[tokens.size() - 2], tokens[tokens.size() - 1]);
  size_t place = newest_[hash % newest_.size()];
  Match best;
  for (int looked = 0; place > 0 && looked < kMostLookedAt; ++looked) {
    if (tokens.size() - place >= before_.size()) break;  // forgotten
    const size_t length = CommonEnd(tokens, place);
    if (length >= kLeastMatch && length > best.length) best = {place, length};
    if (length == kLongestMatch) break;
    place = before_[place % before_.size()];
  }
  return best;
}

void NgramDrafter::Draft(std::span<DraftAsk> asks) {
  for (DraftAsk& ask : asks) {
    ask.guesses.clear();
    const TokenHistory::Match match = histories_[ask.id].Find(ask.tokens);
    if (match.length == 0) continue;
    for (size_t i = 0; i < static_cast<size_t>(std::max<int64_t>(ask.most, 0)); ++i) {
      // Behind the end the text goes on with the guesses themselves.
      const size_t place = match.next + i, known = ask.tokens.size();
      const int32_t token = place < known ? ask.tokens[place] : ask.guesses[place - known].token;
      ask.guesses.push_back({token, SurenessOf(match.length + i)});
    }
  }
}

std::array<double, kSurenessClasses> NgramDrafter::UsualOdds() const {
  return {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95};
}

}  // namespace oort
