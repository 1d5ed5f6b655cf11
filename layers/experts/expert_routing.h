// SPDX-License-Identifier: MIT
// Which experts the tokens of a step go to, and with which weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oort/layer.h"

namespace oort {

/// A token at one of its experts.
struct RoutedToken {
  int64_t token;
  float weight;     ///< of what the expert gives
  float scale = 1;  ///< of what goes into it
};

/// How a router's logits become weights.
struct RoutingRule {
  int64_t experts = 0, used = 0;
  /// The weights of the chosen experts sum to 1; else they are their shares among all.
  bool normalized = false;
  /// Each expert has a score of its own, the sigmoid of its logit; else scores are a softmax.
  bool sigmoid = false;
  /// Experts are chosen from the `groups_used` best of so many groups of neighbours. A group is as
  /// good as its best expert, or as its two best together where scores are sigmoids.
  int64_t groups = 1, groups_used = 1;
  float scale = 1;                    ///< of all weights
  bool scales_inputs = false;         ///< weights scale what goes into an expert
  const float* correction = nullptr;  ///< added to the scores that experts are chosen by; or null
};

/// What operators say of a rule: `used`, `normalized`, `sigmoid`, `factor`, `groups`,
/// `groups_used`, `scales_inputs` and the attribute `correction`.
void AddRoutingParams(OperatorSchema& schema);
/// Throws kInvalidModel where it makes no sense. The rule looks at the correction, which stays.
RoutingRule ReadRoutingRule(const LayerInit& init, int64_t experts, const Tensor& correction);

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

/// Adds the rows that an expert gave to those of their tokens. All who do so share this code, so
/// that they round alike. A token comes to an expert once, so rows write apart from each other.
void AddWeighted(const Context& context, const float* rows, const RoutedToken* routed,
                 int64_t count, int64_t width, float* out);

}  // namespace oort
