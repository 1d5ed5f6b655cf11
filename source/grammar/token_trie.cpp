// SPDX-License-Identifier: MIT
#include "grammar/token_trie.h"

#include <algorithm>
#include <numeric>

namespace oort::grammar {
namespace {

constexpr size_t kLongestToken = 4096;  // longer ones are in no answer: a walk counts in 16 bits

}  // namespace

TokenTrie::TokenTrie(const std::vector<std::string>& bytes) {
  begin_ = {0};
  for (const std::string& one : bytes) {
    if (one.size() <= kLongestToken) text_ += one;
    begin_.push_back(static_cast<uint32_t>(text_.size()));
  }
  std::vector<int32_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t token) { return this->bytes(token).empty(); });
  std::ranges::stable_sort(order, {}, [&](int32_t token) { return this->bytes(token); });
  std::vector<uint32_t> open;  // the nodes of the last token
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (open.size() > depth) {
      nodes_[open.back()].next = static_cast<uint32_t>(nodes_.size());
      open.pop_back();
    }
  };
  for (const int32_t token : order) {
    const std::string_view text = this->bytes(token);
    const auto common = std::ranges::mismatch(text, last).in1 - text.begin();
    close(static_cast<size_t>(common));
    for (size_t i = open.size(); i < text.size(); ++i) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(text[i])});
    }
    tokens_.push_back(token);
    last = text;
    depth_ = std::max(depth_, text.size());
  }
  close(0);
  nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), 0, 0});
}

}  // namespace oort::grammar
