// SPDX-License-Identifier: MIT
// Which experts the tokens of a step go to, and with which weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oort {

/// A token at one of its experts.
struct RoutedToken {
  int64_t token;
  float weight;
};

/// How a router's logits become weights.
struct RoutingRule {
  int64_t experts = 0, used = 0;
  /// Softmax over the chosen experts alone; else over all, of which the chosen ones keep theirs.
  bool normalized = false;
};

/// The tokens of a step by their experts: those of one expert stand side by side, in their order,
/// so that its weights are read once for all of them.
class ExpertRouting {
 public:
  /// `logits`: (tokens, experts). Of equal logits the lower expert is taken; NaN is never
  /// preferred.
  ExpertRouting(const RoutingRule& rule, const float* logits, int64_t tokens);

  /// Experts that a token goes to, ascending.
  const std::vector<int64_t>& experts_in_use() const { return in_use_; }
  const RoutedToken* begin(int64_t expert) const { return tokens_.data() + first(expert); }
  int64_t count(int64_t expert) const {
    return starts_[static_cast<size_t>(expert) + 1] - starts_[static_cast<size_t>(expert)];
  }

 private:
  int64_t first(int64_t expert) const { return starts_[static_cast<size_t>(expert)]; }

  std::vector<RoutedToken> tokens_;
  std::vector<int64_t> starts_, in_use_;
};

}  // namespace oort
