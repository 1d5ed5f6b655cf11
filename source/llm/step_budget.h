// SPDX-License-Identifier: MIT
// How many tokens a step of prompts and answers may have, so that who reads an answer does not
// wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace oort {

struct StepLimits {
  int64_t most = 512;     ///< tokens of a step
  int64_t least = 64;     ///< of these for prompts, however long they take: they go on, too
  double seconds = 0;     ///< about, from one token of an answer to the next; 0: no limit
  bool has_both = false;  ///< one step may have prompts and answers; otherwise they take turns
  bool spares = false;    ///< no part is so short that most of its time is what each takes anew
};

/// Learns from the steps so far how long others will take. Where prompts and answers take turns,
/// who reads an answer waits for a part of a prompt and for a step of answers. The part gets what
/// the answers leave of the time, and no less than they take: beside many answers, which take long,
/// prompts would hardly go on.
class StepBudget {
 public:
  explicit StepBudget(const StepLimits& limits) : limits_(limits) {}

  /// A step with prompts had so many tokens and took so long.
  void ObservePrompts(int64_t tokens, double seconds) {
    // Few tokens take as long as the weights take to be read, which says nothing of many.
    if (tokens < limits_.least || seconds <= 0) return;
    const double count = static_cast<double>(tokens);
    if (Begins(prompts_)) {
      tokens_ = count;
      seconds_ = seconds;
      return;
    }
    // The system may have taken the processor away.
    seconds = std::min(seconds, kMostSlower * Seconds(count));
    const double more = count - tokens_, longer = seconds - seconds_;
    tokens_ += kWeightOfNewest * more;
    seconds_ += kWeightOfNewest * longer;
    spread_ = (1 - kWeightOfNewest) * (spread_ + kWeightOfNewest * more * more);
    together_ = (1 - kWeightOfNewest) * (together_ + kWeightOfNewest * more * longer);
  }
  /// A step of answers alone took so long, with the guesses that it checked.
  void ObserveAnswers(double seconds) { turn_ += seconds; }
  /// All answers had their turn. Where they are too many for one step, who reads one waits for all
  /// of their steps.
  void EndTurn() {
    double seconds = std::exchange(turn_, 0);
    if (seconds <= 0) return;
    if (Begins(turns_)) {
      answers_ = seconds;
      return;
    }
    seconds = std::min(seconds, kMostSlower * answers_);
    answers_ += kWeightOfNewest * (seconds - answers_);
  }
  /// That the next step may have.
  int64_t Tokens(bool has_answers) const {
    if (!has_answers || limits_.seconds <= 0 || seconds_ == 0) return limits_.most;
    const double left =
        limits_.has_both ? limits_.seconds : std::max(limits_.seconds - answers_, answers_);
    const double fit = tokens_ + (left - seconds_) / SecondsOfToken();
    const double most = static_cast<double>(limits_.most);
    const double least = std::min(std::max(static_cast<double>(limits_.least), WorthAPart()), most);
    return static_cast<int64_t>(std::clamp(fit, least, most));
  }

 private:
  static constexpr double kWeightOfNewest = 0.25;
  static constexpr double kMostSlower = 2;
  /// What a step takes before its first token is no more than this share of what it takes in all.
  static constexpr double kMostFixed = 0.7;

  /// The first step makes plans and touches memory, as no other does: it counts until there is a
  /// second one.
  static bool Begins(int& seen) { return seen < 2 && ++seen > 0; }
  /// Of one more, in steps of about as many as the last ones had.
  double SecondsOfToken() const {
    const double mean = seconds_ / tokens_;
    const double slope = spread_ > 0 ? together_ / spread_ : mean;
    return std::clamp(slope, (1 - kMostFixed) * mean, mean);
  }
  /// Where kernels unpack weights anew in each step, short parts would take most of their time for
  /// that: a part has twice the tokens that are worth it, so that also half of one is.
  double WorthAPart() const {
    if (!limits_.spares) return 0;
    return 2 * (seconds_ / SecondsOfToken() - tokens_);
  }
  double Seconds(double tokens) const { return seconds_ + (tokens - tokens_) * SecondsOfToken(); }

  StepLimits limits_;
  // Of the last steps, the newest of which count most: means, and how far they lie apart.
  double tokens_ = 0, seconds_ = 0;
  double spread_ = 0, together_ = 0;
  double answers_ = 0, turn_ = 0;  // seconds of all answers' steps: usually, and in this turn
  int prompts_ = 0, turns_ = 0;    // that were seen, up to 2
};

}  // namespace oort
