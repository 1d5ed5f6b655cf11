// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace oort {

class Sampler;

/// What biases and penalties make of the logit of one token, in this order.
struct LogitChange {
  int32_t token = 0;
  float bias = 0;     ///< is added
  float penalty = 1;  ///< divides what is above 0, and multiplies the rest
  float less = 0;     ///< is subtracted

  float Of(float logit) const {
    logit += bias;
    return (logit < 0 ? logit * penalty : logit / penalty) - less;
  }
};

/// Of the next token of a sampler: no token twice, all below `vocabulary`. Throws kInvalidArgument
/// where a bias names another.
void FindLogitChanges(const Sampler& sampler, size_t vocabulary, std::vector<LogitChange>& changes);

}  // namespace oort
