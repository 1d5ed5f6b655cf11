// SPDX-License-Identifier: MIT
#include "llm/speculation/guess_planner.h"

#include <utility>

namespace oort {
namespace {

constexpr double kWeightOfNewest = 0.2;
/// What the others follow of it when steps of one size become slower or faster: mostly the text has
/// become longer, or the machine busy.
constexpr double kWeightForOthers = 0.1;
/// Guesses have to be expected to gain so much: what is expected is not exact.
constexpr double kLeastGain = 1.03;
/// What guesses may lose of all time, and how much of it that they have gained may be lost again.
constexpr double kMostLost = 0.02, kMostKept = 0.02;

}  // namespace

void StepCosts::Observe(int64_t rows, double seconds) {
  if (rows < 1 || rows > kMostCheckedRows || seconds <= 0) return;
  const size_t at = static_cast<size_t>(rows);
  // The first step of a size makes its plan, and touches its memory.
  if (!std::exchange(began_[at], true)) return;
  double& known = seconds_[at];
  if (known == 0) {
    known = seconds;
    return;
  }
  // The system may have taken the processor away.
  const double change = std::min(seconds / known, 2.0) - 1;
  for (double& other : seconds_) other *= 1 + kWeightForOthers * change;
  known *= (1 + kWeightOfNewest * change) / (1 + kWeightForOthers * change);
}

/// As the two largest numbers that are known tell, or else as is usual, whichever is less: kernels
/// that share the work of many rows do not share that of two, and only who tries finds out.
double StepCosts::SecondsBeyond(int64_t known, int64_t rows) const {
  const auto at = [&](int64_t r) { return seconds_[static_cast<size_t>(r)]; };
  const auto share = [&](int64_t r) { return 1 + usual_cost_of_row_ * static_cast<double>(r - 1); };
  const double last = at(known), more = static_cast<double>(rows - known);
  int64_t before = known - 1;
  while (before > 0 && at(before) == 0) --before;
  if (before == 0) return last * share(rows) / share(known);
  const double slope = (last - at(before)) / static_cast<double>(known - before);
  const double usual = usual_cost_of_row_ * at(before) / share(before);
  return last + std::clamp(slope, 0.0, usual) * more;
}

double StepCosts::Seconds(int64_t rows) const {
  const auto at = [&](int64_t r) { return seconds_[static_cast<size_t>(r)]; };
  rows = std::clamp<int64_t>(rows, 1, kMostCheckedRows);
  int64_t below = rows, above = rows;
  while (below > 0 && at(below) == 0) --below;
  while (above <= kMostCheckedRows && at(above) == 0) ++above;
  if (above > kMostCheckedRows) return below == 0 ? 0 : SecondsBeyond(below, rows);
  if (below == above) return at(rows);
  // One row costs no more than several.
  const double least = below == 0
                           ? at(above) / (1 + usual_cost_of_row_ * static_cast<double>(above - 1))
                           : at(below);
  const int64_t from = std::max<int64_t>(below, 1);
  if (from == above) return at(above);
  const double part = static_cast<double>(rows - from) / static_cast<double>(above - from);
  return least + part * (at(above) - least);
}

std::vector<int64_t> PlanGuesses(std::span<const std::vector<double>> chances, int64_t rows,
                                 const StepCosts& costs) {
  const int64_t answers = static_cast<int64_t>(chances.size());
  std::vector<std::pair<double, size_t>> gains;  // a guess, and whose it is
  for (size_t i = 0; i < chances.size(); ++i) {
    for (const double chance : chances[i]) gains.emplace_back(chance, i);
  }
  // Chances of one answer's guesses fall, so that those before a guess come before it here, too.
  std::ranges::stable_sort(gains, std::ranges::greater(), &std::pair<double, size_t>::first);
  const double plain = static_cast<double>(answers) / costs.Seconds(answers);
  double best = plain * kLeastGain, tokens = static_cast<double>(answers);
  size_t taken = 0;
  const size_t room = static_cast<size_t>(std::max<int64_t>(rows - answers, 0));
  for (size_t i = 0; i < std::min(gains.size(), room); ++i) {
    tokens += gains[i].first;
    const double rate = tokens / costs.Seconds(answers + static_cast<int64_t>(i) + 1);
    if (rate <= best) continue;
    best = rate;
    taken = i + 1;
  }
  std::vector<int64_t> planned(chances.size());
  for (size_t i = 0; i < taken; ++i) ++planned[gains[i].second];
  return planned;
}

RoundPlan PlanRound(double chance, int64_t answers, double seconds_a_guess, int64_t most,
                    const StepCosts& costs) {
  const double count = static_cast<double>(answers), plain = costs.Seconds(answers) / count;
  double best = kLeastGain / plain, tokens = count, reached = 1;
  RoundPlan plan;
  for (int64_t guesses = 1; guesses <= most; ++guesses) {
    reached *= chance;
    tokens += count * reached;
    const double seconds =
        costs.Seconds(answers * (1 + guesses)) + seconds_a_guess * static_cast<double>(guesses);
    if (tokens / seconds <= best) continue;
    best = tokens / seconds;
    plan = {guesses, 1 - 1 / (best * plain)};
  }
  return plan;
}

void GuessLedger::Observe(double seconds, double plain) {
  seconds_ += seconds;
  lost_ = std::max(lost_ + seconds - plain, -kMostKept * seconds_);
}

bool GuessLedger::Allows(double seconds) const { return lost_ + seconds <= kMostLost * seconds_; }

}  // namespace oort
