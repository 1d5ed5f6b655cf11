// SPDX-License-Identifier: MIT
// Which experts the tokens of a step go to, on a GPU. Nothing comes back to the host: launches have
// the shapes that the number of tokens gives, so that a step can be recorded.
#pragma once

#include <cstdint>

#include "layers/experts/expert_routing.h"

namespace oort::cuda {

class Stream;

/// Most that the kernels take.
inline constexpr int64_t kMostRoutedExperts = 512, kMostRoutedGroups = 32, kMostUsedExperts = 32;
/// Steps of at most so many tokens are routed in one launch.
inline constexpr int64_t kTokensOfOneRouting = 256;

/// A pair is a token at one of its experts: token * used + slot, where the slots of a token are in
/// the order of its experts. Experts count from the first one that is held here; those that are
/// held elsewhere are all `held`.
struct RoutedPairs {
  int* experts = nullptr;    ///< of the pairs
  float* weights = nullptr;  ///< likewise
  int* order = nullptr;      ///< the pairs of held experts by expert
  int* starts = nullptr;     ///< of the experts in `order`; the last of held + 1 is its end
  int* in_use = nullptr;     ///< experts that have pairs; behind `held` places, how many
};

struct RoutingStep {
  RoutingRule rule;  ///< its correction is on the device
  int64_t first = 0, held = 0;
  const float* logits = nullptr;  ///< (tokens, rule.experts)
  int64_t tokens = 0;
  const float* x = nullptr;  ///< (tokens, columns)
  int64_t columns = 0;
  RoutedPairs pairs;
  void* split_x = nullptr;  ///< rows of x as split_rows.h has them
  int planes = 2;
};
void RouteExperts(const Stream& stream, const RoutingStep& step);

/// out = addend + what the experts gave, each times its weight, in the order of the experts.
struct ExpertSum {
  const float* rows = nullptr;    ///< (pairs, width); those of experts elsewhere are not read
  const float* addend = nullptr;  ///< or null
  float* out = nullptr;           ///< (tokens, width)
  int64_t tokens = 0, width = 0;
  int used = 0, held = 0;
  bool weighted = true;  ///< else weights scaled what went in
  RoutedPairs pairs;
};
void SumExperts(const Stream& stream, const ExpertSum& sum);

}  // namespace oort::cuda
