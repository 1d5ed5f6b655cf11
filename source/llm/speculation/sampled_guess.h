// SPDX-License-Identifier: MIT
// Guesses of drafters that have logits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "llm/speculation/drafter.h"

namespace oort {

/// What the sampler picks of a drafter's logits, and how likely these find it. With the request's
/// own sampler, and so its random numbers, both pick the same where drafter and model agree.
inline Guess SampledGuess(Sampler& sampler, std::span<const float> logits) {
  constexpr std::array<double, kSurenessClasses - 1> kFrom = {0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95};
  const int32_t token = sampler.Sample(logits).token;
  const double chance = std::exp(static_cast<double>(LogprobOf(logits, token, 0).logprob));
  const auto above = std::ranges::upper_bound(kFrom, chance);
  return {token, static_cast<uint8_t>(above - kFrom.begin())};
}

/// How often these are right, before anything is known.
inline constexpr std::array<double, kSurenessClasses> kOddsOfSampled = {0.15, 0.25, 0.35, 0.5,
                                                                        0.65, 0.75, 0.87, 0.97};

}  // namespace oort
