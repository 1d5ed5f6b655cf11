// SPDX-License-Identifier: MIT
#include "llm/followed_texts.h"

#include <utility>

#include "oort/error.h"

namespace oort {

void ToldTexts::Add(const std::shared_ptr<const EncodedText>& text) { texts_[text->number] = text; }

std::vector<int64_t> ToldTexts::TakeEnded() {
  std::vector<int64_t> ended;
  for (const auto& [number, text] : texts_) {
    if (text.expired()) ended.push_back(number);
  }
  for (const int64_t number : ended) texts_.erase(number);
  return ended;
}

void FollowedTexts::Add(int64_t number, std::shared_ptr<const EncodedText> text) {
  if (number < 0 || !texts_.try_emplace(number, std::move(text)).second) {
    throw Error(ErrorCode::kDevice, "rank 0 has a text read under a number that is none");
  }
}

void FollowedTexts::End(std::span<const int64_t> numbers) {
  for (const int64_t number : numbers) {
    if (texts_.erase(number) == 0) {
      throw Error(ErrorCode::kDevice, "rank 0 lets go of a text that has not been read");
    }
  }
}

const EncodedText* FollowedTexts::At(int64_t number) const {
  if (number < 0) return nullptr;
  const auto found = texts_.find(number);
  if (found != texts_.end()) return found->second.get();
  throw Error(ErrorCode::kDevice, "rank 0 answers to a text that has not been read");
}

}  // namespace oort
