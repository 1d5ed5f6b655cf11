// SPDX-License-Identifier: MIT
// The bytes of all tokens as a tree, in the order in which a walk visits it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oort::grammar {

/// Thread contract: immutable.
class TokenTrie {
 public:
  /// `bytes` has those of each token by its id; tokens without any are in no answer.
  explicit TokenTrie(const std::vector<std::string>& bytes);

  /// A node behind the root: a byte behind its parent's.
  struct Node {
    uint32_t next;    ///< the first node behind all that are below this one
    uint32_t tokens;  ///< where its tokens begin; they end where those of the next node begin
    uint16_t depth;   ///< from 1
    uint8_t byte;
  };
  /// The children of a node follow it; there is one more node behind all.
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()) - 1; }
  const Node& node(uint32_t i) const { return nodes_[i]; }
  std::span<const int32_t> tokens(uint32_t i) const {
    return {tokens_.data() + nodes_[i].tokens, tokens_.data() + nodes_[i + 1].tokens};
  }
  /// All tokens of a node and of those below it.
  std::span<const int32_t> tokens_below(uint32_t i) const {
    return {tokens_.data() + nodes_[i].tokens, tokens_.data() + nodes_[nodes_[i].next].tokens};
  }
  size_t depth() const { return depth_; }
  size_t vocabulary() const { return begin_.size() - 1; }
  std::string_view bytes(int32_t token) const {
    const auto i = static_cast<size_t>(token);
    return std::string_view(text_).substr(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  std::string text_;
  std::vector<uint32_t> begin_;
  size_t depth_ = 0;
};

}  // namespace oort::grammar
