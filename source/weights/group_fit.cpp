// SPDX-License-Identifier: MIT
#include "weights/group_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oort {
namespace {

constexpr int kTrials = 9;          // to either side of the first guess
constexpr float kTrialStep = 0.1F;  // of the largest number that is stored
// With importance fewer are tried near the guess, and some that let numbers without importance go
// beyond the ends.
constexpr int kImportantTrials = 4;
constexpr float kImportantStep = 0.2F;
constexpr float kClippings[] = {1.2F, 1.35F, 1.5F, 1.75F, 2.0F, 2.4F};
constexpr size_t kLanes = 8;  // sums that a compiler keeps in vectors

float RoundTo(const std::optional<DType>& dtype, float x) {
  return dtype == DType::kF16 ? static_cast<float>(Half(x)) : x;
}

/// Weighted sums over a group and its codes q, from which the error of every scale and minimum
/// for these codes follows.
struct CodeSums {
  double w = 0, q = 0, qq = 0, x = 0, xq = 0, xx = 0;

  double ErrorOf(double scale, double minimum) const {
    return xx - 2 * scale * xq - 2 * minimum * x + scale * scale * qq + 2 * scale * minimum * q +
           minimum * minimum * w;
  }
};

/// Sums of eight numbers at a time, each in a lane of its own.
struct LaneSums {
  float w[kLanes] = {}, q[kLanes] = {}, qq[kLanes] = {}, x[kLanes] = {}, xq[kLanes] = {},
        xx[kLanes] = {};

  void Add(size_t lane, float value, float weight, float code) {
    const float weighted_code = weight * code, weighted_value = weight * value;
    w[lane] += weight;
    q[lane] += weighted_code;
    qq[lane] += weighted_code * code;
    x[lane] += weighted_value;
    xq[lane] += weighted_value * code;
    xx[lane] += weighted_value * value;
  }
};

double Total(const float (&lanes)[kLanes]) {
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

CodeSums SumsFor(std::span<const float> x, std::span<const float> importance, const GroupFit& guess,
                 const CodeRange& codes) {
  const float inverse = guess.scale == 0 ? 0 : 1 / guess.scale;
  const auto least = static_cast<float>(codes.least), most = static_cast<float>(codes.most);
  const bool weighs = !importance.empty();
  LaneSums lanes;
  const size_t whole = x.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    float code[kLanes], weight[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      code[lane] =
          std::min(most, std::max(least, std::nearbyint((x[i + lane] - guess.minimum) * inverse)));
    }
    for (size_t lane = 0; lane < kLanes; ++lane) weight[lane] = weighs ? importance[i + lane] : 1;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes.Add(lane, x[i + lane], weight[lane], code[lane]);
    }
  }
  for (size_t i = whole; i < x.size(); ++i) {
    const float code =
        std::min(most, std::max(least, std::nearbyint((x[i] - guess.minimum) * inverse)));
    lanes.Add(i - whole, x[i], weighs ? importance[i] : 1, code);
  }
  return {Total(lanes.w), Total(lanes.q),  Total(lanes.qq),
          Total(lanes.x), Total(lanes.xq), Total(lanes.xx)};
}

/// Tries one guess after the other, and keeps the best.
class GroupSearch {
 public:
  GroupSearch(std::span<const float> x, std::span<const float> importance, const FitRules& rules)
      : x_(x), importance_(importance), rules_(rules) {}

  void Begin(const GroupFit& fit) {
    best_ = Rounded(fit);
    error_ = FitError(x_, importance_, best_, rules_.codes);
  }

  /// The guess gives codes, the codes give the best scale by least squares.
  void Try(const GroupFit& guess) {
    if (!std::isfinite(1 / guess.scale) || !std::isfinite(guess.minimum)) return;
    const CodeSums sums = SumsFor(x_, importance_, guess, rules_.codes);
    Keep(Rounded(guess), sums);
    Keep(Rounded(Refined(sums, guess)), sums);
  }

  /// What was found gives codes of its own: a few times more, as long as that helps.
  GroupFit Finish() {
    constexpr int kMost = 3;
    for (int i = 0; i < kMost; ++i) {
      const double before = error_;
      Try(best_);
      if (error_ >= before) break;
    }
    return best_;
  }

 private:
  GroupFit Rounded(const GroupFit& fit) const {
    return {RoundTo(rules_.stored, fit.scale), RoundTo(rules_.stored, fit.minimum)};
  }

  void Keep(const GroupFit& fit, const CodeSums& sums) {
    if (!std::isfinite(fit.scale) || !std::isfinite(fit.minimum)) return;
    const double error =
        sums.ErrorOf(static_cast<double>(fit.scale), static_cast<double>(fit.minimum));
    if (error >= error_) return;
    error_ = error;
    best_ = fit;
  }

  GroupFit Refined(const CodeSums& sums, const GroupFit& guess) const {
    if (rules_.symmetric) return ScaleAlone(sums, guess);
    const double determinant = sums.w * sums.qq - sums.q * sums.q;
    if (determinant <= 0) return guess;
    const double scale = (sums.w * sums.xq - sums.q * sums.x) / determinant;
    const double minimum = (sums.x - scale * sums.q) / sums.w;
    if (rules_.falling_minimum && minimum > 0) return ScaleAlone(sums, guess);
    return {static_cast<float>(scale), static_cast<float>(minimum)};
  }

  static GroupFit ScaleAlone(const CodeSums& sums, const GroupFit& guess) {
    return sums.qq <= 0 ? guess : GroupFit{static_cast<float>(sums.xq / sums.qq), 0};
  }

  std::span<const float> x_, importance_;
  const FitRules& rules_;
  GroupFit best_;
  double error_ = std::numeric_limits<double>::infinity();
};

/// Calls `attempt` with each number that may stand in for `extreme`, the farthest code.
template <typename Attempt>
void ForEachExtreme(float extreme, bool weighs, const Attempt& attempt) {
  const int trials = weighs ? kImportantTrials : kTrials;
  const float step = weighs ? kImportantStep : kTrialStep;
  for (int trial = -trials; trial <= trials; ++trial) {
    attempt(extreme + step * static_cast<float>(trial));
  }
  if (!weighs) return;
  for (const float clipping : kClippings) attempt(extreme * clipping);
}

/// The number that is farthest from zero is stored as the one that is, or nearly so.
GroupFit FitScale(std::span<const float> x, std::span<const float> importance,
                  const FitRules& rules, float far) {
  if (far == 0) return {};
  const auto most = static_cast<float>(rules.codes.most);
  if (!rules.search) return {RoundTo(rules.stored, std::abs(far) / most), 0};
  GroupSearch search(x, importance, rules);
  search.Begin({std::abs(far) / most, 0});
  for (const int extreme : {rules.codes.least, rules.codes.most}) {
    ForEachExtreme(static_cast<float>(extreme), !importance.empty(), [&](float code) {
      search.Try({far / code, 0});
    });
  }
  return search.Finish();
}

GroupFit FitBoth(std::span<const float> x, std::span<const float> importance, const FitRules& rules,
                 float low, float high) {
  if (rules.falling_minimum) {
    low = std::min(low, 0.0F);
    high = std::max(high, 0.0F);
  }
  if (low == high) return {0, RoundTo(rules.stored, low)};
  const auto most = static_cast<float>(rules.codes.most);
  const GroupFit plain{(high - low) / most, low};
  if (!rules.search) {
    return {RoundTo(rules.stored, plain.scale), RoundTo(rules.stored, plain.minimum)};
  }
  GroupSearch search(x, importance, rules);
  search.Begin(plain);
  ForEachExtreme(most, !importance.empty(), [&](float code) {
    search.Try({(high - low) / code, low});
  });
  return search.Finish();
}

}  // namespace

int NearestCode(float x, const GroupFit& fit, const CodeRange& codes) {
  if (fit.scale == 0) return std::clamp(0, codes.least, codes.most);
  const float q = std::nearbyint((x - fit.minimum) / fit.scale);
  return static_cast<int>(
      std::clamp(q, static_cast<float>(codes.least), static_cast<float>(codes.most)));
}

double FitError(std::span<const float> x, std::span<const float> importance, const GroupFit& fit,
                const CodeRange& codes) {
  const CodeSums sums = SumsFor(x, importance, fit, codes);
  return sums.ErrorOf(static_cast<double>(fit.scale), static_cast<double>(fit.minimum));
}

GroupFit FitGroup(std::span<const float> x, std::span<const float> importance,
                  const FitRules& rules) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  if (!rules.symmetric) return FitBoth(x, importance, rules, *low, *high);
  return FitScale(x, importance, rules, -*low > *high ? *low : *high);
}

}  // namespace oort
