// SPDX-License-Identifier: MIT
// How many guesses a step checks: as many as are expected to pay.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "llm/speculation/drafter.h"

namespace oort {

/// Learns how often guesses of each class are right.
class GuessOdds {
 public:
  explicit GuessOdds(const std::array<double, kSurenessClasses>& usual) : odds_(usual) {}
  void Observe(size_t sureness, bool right, double weight) {
    odds_[sureness] += weight * ((right ? 1.0 : 0.0) - odds_[sureness]);
  }
  double Of(size_t sureness) const { return odds_[sureness]; }
  const std::array<double, kSurenessClasses>& all() const { return odds_; }

 private:
  std::array<double, kSurenessClasses> odds_;
};

/// Learns how long steps of so many rows take.
class StepCosts {
 public:
  /// Before anything is known, a row more costs so much of a step of one.
  explicit StepCosts(double usual_cost_of_row) : usual_cost_of_row_(usual_cost_of_row) {}
  void Observe(int64_t rows, double seconds);
  bool is_known() const {
    return std::ranges::any_of(seconds_, [](double s) { return s > 0; });
  }
  /// As expected; 0 where nothing is known.
  double Seconds(int64_t rows) const;

 private:
  /// More than the largest number of rows that is known.
  double SecondsBeyond(int64_t known, int64_t rows) const;

  double usual_cost_of_row_;
  std::array<double, kMostCheckedRows + 1> seconds_ = {};  // by rows; 0: not known yet
  std::array<bool, kMostCheckedRows + 1> began_ = {};
};

/// Of each answer the first guesses that a step checks, of `rows` at most of all answers, of which
/// each has a row for its last token. `chances` has, of each answer, the chance that each guess is
/// right, all those before it included.
std::vector<int64_t> PlanGuesses(std::span<const std::vector<double>> chances, int64_t rows,
                                 const StepCosts& costs);

struct RoundPlan {
  int64_t guesses = 0;  ///< for each answer; 0 where none pay
  double gain = 0;      ///< in time, as a share of what the tokens take without guesses
};
/// How many guesses a round of drafting makes that takes so long for each of them, for so many
/// answers whose guesses are mostly right with this chance.
RoundPlan PlanRound(double chance, int64_t answers, double seconds_a_guess, int64_t most,
                    const StepCosts& costs);

/// Keeps count of what guesses have cost and gained, so that all that they lose together stays a
/// small share of the time that answers take, whatever was expected of them.
class GuessLedger {
 public:
  /// A step took so long with all that belongs to it, and its tokens would have taken `plain`
  /// without guesses. Without guesses both are the same.
  void Observe(double seconds, double plain);
  /// Whether so many seconds more may be lost.
  bool Allows(double seconds) const;

 private:
  double lost_ = 0;     // less than 0: gained
  double seconds_ = 0;  // of all steps
};

}  // namespace oort
