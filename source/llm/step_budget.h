// SPDX-License-Identifier: MIT
// How many tokens a step of prompts and answers may have, so that who reads an answer does not
// wait.
#pragma once

#include <algorithm>
#include <cstdint>

namespace oort {

/// Learns from the steps so far how many tokens the machine computes a second.
class StepBudget {
 public:
  /// Steps of at most `most` tokens and, where answers run, of at most about `seconds`; 0: no such
  /// limit.
  StepBudget(int64_t most, double seconds) : most_(most), seconds_(seconds) {}

  /// A step of so many tokens took so long.
  void Observe(int64_t tokens, double seconds) {
    // Few tokens take as long as the weights take to be read, which says nothing of many.
    if (tokens < kLeast || seconds <= 0) return;
    const double rate = static_cast<double>(tokens) / seconds;
    rate_ = rate_ == 0 ? rate : rate_ + kWeightOfNewest * (rate - rate_);
  }
  int64_t Tokens(bool has_answers) const {
    if (!has_answers || seconds_ <= 0 || rate_ == 0) return most_;
    const double fit = std::min(rate_ * seconds_, static_cast<double>(most_));
    return std::max(static_cast<int64_t>(fit), std::min(kLeast, most_));
  }

 private:
  static constexpr int64_t kLeast = 64;
  static constexpr double kWeightOfNewest = 0.25;
  int64_t most_;
  double seconds_;
  double rate_ = 0;
};

}  // namespace oort
