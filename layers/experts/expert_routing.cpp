// SPDX-License-Identifier: MIT
#include "layers/experts/expert_routing.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "oort/error.h"

namespace oort {
namespace {

struct Choice {
  int64_t expert;
  float weight;
};

/// Every number is above NaN.
bool IsAbove(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

/// What experts are compared by: logits rank as their softmax or their sigmoids do, and large ones
/// differ where their sigmoids are all 1. Sigmoids are needed only where something is added.
void RankExperts(const RoutingRule& rule, const float* logits, std::vector<float>& ranks) {
  const bool adds = rule.correction != nullptr || rule.groups_used < rule.groups;
  ranks.assign(logits, logits + rule.experts);
  for (size_t e = 0; e < ranks.size(); ++e) {
    if (rule.sigmoid && adds) ranks[e] = 1 / (1 + std::exp(-ranks[e]));
    if (rule.correction != nullptr) ranks[e] += rule.correction[e];
  }
}

/// The place of the largest that is not taken.
int64_t BestOf(const float* ranks, int64_t count, const std::vector<bool>& taken, int64_t first) {
  int64_t best = -1;
  for (int64_t i = first; i < first + count; ++i) {
    if (taken[static_cast<size_t>(i)]) continue;
    if (best < 0 || IsAbove(ranks[i], ranks[best])) best = i;
  }
  return best;
}

float RankOfGroup(const RoutingRule& rule, const std::vector<float>& ranks, int64_t group) {
  const int64_t size = rule.experts / rule.groups;
  std::vector<float> own(ranks.begin() + group * size, ranks.begin() + (group + 1) * size);
  std::ranges::sort(own, IsAbove);
  return rule.sigmoid && size > 1 ? own[0] + own[1] : own[0];
}

/// Takes experts of all groups but the best.
void LeaveOutGroups(const RoutingRule& rule, const std::vector<float>& ranks,
                    std::vector<bool>& taken) {
  if (rule.groups_used >= rule.groups) return;
  std::vector<float> groups;
  for (int64_t group = 0; group < rule.groups; ++group) {
    groups.push_back(RankOfGroup(rule, ranks, group));
  }
  std::vector<bool> used(groups.size(), false);
  for (int64_t i = 0; i < rule.groups_used; ++i) {
    used[static_cast<size_t>(BestOf(groups.data(), rule.groups, used, 0))] = true;
  }
  const auto size = static_cast<size_t>(rule.experts / rule.groups);
  for (size_t e = 0; e < ranks.size(); ++e) {
    if (!used[e / size]) taken[e] = true;
  }
}

/// The `used` best experts of one token, the best first, with their logits.
void Choose(const RoutingRule& rule, const float* logits, std::vector<float>& ranks,
            std::vector<bool>& taken, std::vector<Choice>& chosen) {
  chosen.clear();
  taken.assign(static_cast<size_t>(rule.experts), false);
  RankExperts(rule, logits, ranks);
  LeaveOutGroups(rule, ranks, taken);
  for (int64_t i = 0; i < rule.used; ++i) {
    const int64_t best = BestOf(ranks.data(), rule.experts, taken, 0);
    taken[static_cast<size_t>(best)] = true;
    chosen.push_back({best, logits[best]});
  }
}

void WeighBySigmoid(const RoutingRule& rule, std::vector<Choice>& chosen) {
  float sum = 0;
  for (Choice& choice : chosen) {
    choice.weight = 1 / (1 + std::exp(-choice.weight));
    sum += choice.weight;
  }
  const float factor = rule.normalized ? rule.scale / (sum + 1e-20F) : rule.scale;
  for (Choice& choice : chosen) choice.weight *= factor;
}

/// Logits become weights.
void Weigh(const RoutingRule& rule, const float* logits, std::vector<Choice>& chosen) {
  if (rule.sigmoid) return WeighBySigmoid(rule, chosen);
  float largest = chosen.front().weight;
  float sum = 0;
  if (rule.normalized) {
    for (const Choice& choice : chosen) largest = std::max(largest, choice.weight);
    for (const Choice& choice : chosen) sum += std::exp(choice.weight - largest);
  } else {
    for (int64_t e = 0; e < rule.experts; ++e) largest = std::max(largest, logits[e]);
    for (int64_t e = 0; e < rule.experts; ++e) sum += std::exp(logits[e] - largest);
  }
  for (Choice& choice : chosen) {
    choice.weight = std::exp(choice.weight - largest) / sum * rule.scale;
  }
}

}  // namespace

ExpertRouting::ExpertRouting(const RoutingRule& rule, const float* logits, int64_t tokens) {
  const auto used = static_cast<size_t>(rule.used);
  std::vector<Choice> all, chosen;
  std::vector<bool> taken;
  std::vector<float> ranks;
  all.reserve(static_cast<size_t>(tokens) * used);
  starts_.assign(static_cast<size_t>(rule.experts) + 1, 0);
  for (int64_t token = 0; token < tokens; ++token) {
    const float* row = logits + token * rule.experts;
    Choose(rule, row, ranks, taken, chosen);
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
    RoutedToken& routed = tokens_[static_cast<size_t>(next[expert]++)];
    routed.token = static_cast<int64_t>(i / used);
    routed.weight = rule.scales_inputs ? 1 : all[i].weight;
    routed.scale = rule.scales_inputs ? all[i].weight : 1;
  }
}

void AddRoutingParams(OperatorSchema& schema) {
  schema.Int("used").AtLeast(1).Bool("normalized", false);
  schema.Bool("sigmoid", false).Float("factor", 1.0).Bool("scales_inputs", false);
  schema.Int("groups", 1).AtLeast(1).Int("groups_used", 1).AtLeast(1);
  schema.OptionalAttribute("correction", kF32Only);
}

RoutingRule ReadRoutingRule(const LayerInit& init, int64_t experts, const Tensor& correction) {
  RoutingRule rule;
  rule.experts = experts;
  rule.used = init.Int("used");
  rule.normalized = init.Bool("normalized");
  rule.sigmoid = init.Bool("sigmoid");
  rule.groups = init.Int("groups");
  rule.groups_used = std::min(init.Int("groups_used"), rule.groups);
  rule.scale = static_cast<float>(init.Float("factor"));
  rule.scales_inputs = init.Bool("scales_inputs");
  if (rule.experts % rule.groups != 0 ||
      rule.used > rule.experts / rule.groups * rule.groups_used) {
    throw Error(ErrorCode::kInvalidModel, "a token cannot use " + std::to_string(rule.used) +
                                              " of " + std::to_string(rule.experts) +
                                              " experts from " + std::to_string(rule.groups_used) +
                                              " of " + std::to_string(rule.groups) + " groups");
  }
  if (!correction.defined()) return rule;
  if (correction.shape() != Shape{rule.experts}) {
    throw Error(ErrorCode::kInvalidModel, "expected a correction of " +
                                              std::to_string(rule.experts) + " scores, got " +
                                              correction.ToString());
  }
  rule.correction = correction.data<float>();
  return rule;
}

void AddWeighted(const Context& context, const float* rows, const RoutedToken* routed,
                 int64_t count, int64_t width, float* out) {
  const double bytes = static_cast<double>(width) * 12;
  context.ParallelFor(count, GrainOf({bytes, 0}), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = out + routed[row].token * width;
      const float* from = rows + row * width;
      const float weight = routed[row].weight;
      for (int64_t i = 0; i < width; ++i) to[i] += weight * from[i];
    }
  });
}

}  // namespace oort
