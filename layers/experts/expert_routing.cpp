// SPDX-License-Identifier: MIT
#include "layers/experts/expert_routing.h"

#include <algorithm>
#include <cmath>

namespace oort {
namespace {

struct Choice {
  int64_t expert;
  float weight;
};

/// Every number is above NaN.
bool IsAbove(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

/// The `used` largest logits of one token, the largest first.
void Choose(const RoutingRule& rule, const float* logits, std::vector<bool>& taken,
            std::vector<Choice>& chosen) {
  chosen.clear();
  taken.assign(static_cast<size_t>(rule.experts), false);
  for (int64_t i = 0; i < rule.used; ++i) {
    int64_t best = -1;
    for (int64_t e = 0; e < rule.experts; ++e) {
      if (taken[static_cast<size_t>(e)]) continue;
      if (best < 0 || IsAbove(logits[e], logits[best])) best = e;
    }
    taken[static_cast<size_t>(best)] = true;
    chosen.push_back({best, logits[best]});
  }
}

/// Logits become shares of the softmax.
void Weigh(const RoutingRule& rule, const float* logits, std::vector<Choice>& chosen) {
  const float largest = chosen.front().weight;
  float sum = 0;
  if (rule.normalized) {
    for (const Choice& choice : chosen) sum += std::exp(choice.weight - largest);
  } else {
    for (int64_t e = 0; e < rule.experts; ++e) sum += std::exp(logits[e] - largest);
  }
  for (Choice& choice : chosen) choice.weight = std::exp(choice.weight - largest) / sum;
}

}  // namespace

ExpertRouting::ExpertRouting(const RoutingRule& rule, const float* logits, int64_t tokens) {
  const auto used = static_cast<size_t>(rule.used);
  std::vector<Choice> all, chosen;
  std::vector<bool> taken;
  all.reserve(static_cast<size_t>(tokens) * used);
  starts_.assign(static_cast<size_t>(rule.experts) + 1, 0);
  for (int64_t token = 0; token < tokens; ++token) {
    const float* row = logits + token * rule.experts;
    Choose(rule, row, taken, chosen);
    Weigh(rule, row, chosen);
    for (const Choice& choice : chosen) {
      ++starts_[static_cast<size_t>(choice.expert) + 1];
      all.push_back(choice);
    }
  }
  for (size_t e = 0; e + 1 < starts_.size(); ++e) {
    if (starts_[e + 1] > 0) in_use_.push_back(static_cast<int64_t>(e));
    starts_[e + 1] += starts_[e];
  }
  tokens_.resize(all.size());
  std::vector<int64_t> next = starts_;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto expert = static_cast<size_t>(all[i].expert);
    tokens_[static_cast<size_t>(next[expert]++)] = {static_cast<int64_t>(i / used), all[i].weight};
  }
}

}  // namespace oort
