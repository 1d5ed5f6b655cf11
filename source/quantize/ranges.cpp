// SPDX-License-Identifier: MIT
#include "quantize/ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "oort/error.h"

namespace oort::quantize {
namespace {

constexpr std::array<std::pair<Method, std::string_view>, 5> kMethods = {{
    {Method::kMinMax, "minmax"},
    {Method::kMovingAverage, "moving-average"},
    {Method::kPercentile, "percentile"},
    {Method::kKl, "kl"},
    {Method::kMse, "mse"},
}};

Range WithZero(double low, double high) { return {std::min(low, 0.0), std::max(high, 0.0)}; }

/// A value and how often it came.
struct Weighted {
  double value = 0;
  double count = 0;
};

/// The occupied bins in rising order, zeros among them, as the centre of each within the ends.
std::vector<Weighted> Occupied(const Observer& observer) {
  const Histogram& histogram = observer.histogram();
  std::vector<Weighted> values;
  const auto zeros = static_cast<double>(histogram.zeros());
  for (int bin = 0; bin < static_cast<int>(histogram.counts().size()); ++bin) {
    if (bin == Histogram::kBins / 2 && zeros > 0) values.push_back({0, zeros});
    const auto count = static_cast<double>(histogram.counts()[static_cast<size_t>(bin)]);
    if (count == 0) continue;
    values.push_back({std::clamp(histogram.Center(bin), observer.min(), observer.max()), count});
  }
  return values;
}

/// The value below which `share` of all values lie, linear inside of a bin.
double Quantile(const Histogram& histogram, double share) {
  const double wanted = share * static_cast<double>(histogram.total());
  double below = 0;
  for (int bin = 0; bin < static_cast<int>(histogram.counts().size()); ++bin) {
    if (bin == Histogram::kBins / 2) {
      below += static_cast<double>(histogram.zeros());
      if (below >= wanted && histogram.zeros() > 0) return 0;
    }
    const auto count = static_cast<double>(histogram.counts()[static_cast<size_t>(bin)]);
    if (count > 0 && below + count >= wanted) {
      return histogram.Edge(bin) + histogram.width() * (wanted - below) / count;
    }
    below += count;
  }
  return histogram.reach();
}

Range PercentileRange(const Observer& observer, double percentile) {
  const double cut = (100 - percentile) / 200;
  const auto end = [&](double share) {
    return std::clamp(Quantile(observer.histogram(), share), observer.min(), observer.max());
  };
  return WithZero(end(cut), end(1 - cut));
}

/// Ranges whose errors are found side by side: each is a sum whose steps wait for each other.
constexpr size_t kSideBySide = 8;

std::array<double, kSideBySide> SquaredErrors(std::span<const Weighted> values,
                                              const std::array<Range, kSideBySide>& ranges) {
  constexpr double kRounding = 0x1.8p52;  // a sum with it has no bits behind the point
  std::array<double, kSideBySide> scales{}, lows{}, highs{}, sums{};
  for (size_t i = 0; i < kSideBySide; ++i) {
    scales[i] = (ranges[i].high - ranges[i].low) / 255;
    const double zero = std::clamp(std::nearbyint(-ranges[i].low / scales[i]), 0.0, 255.0);
    lows[i] = -zero;
    highs[i] = 255 - zero;
  }
  for (const Weighted& value : values) {
    for (size_t i = 0; i < kSideBySide; ++i) {
      double q = (value.value / scales[i] + kRounding) - kRounding;
      q = q > lows[i] ? q : lows[i];
      q = q < highs[i] ? q : highs[i];
      const double error = value.value - scales[i] * q;
      sums[i] += value.count * error * error;
    }
  }
  for (size_t i = 0; i < kSideBySide; ++i) {
    if (!(scales[i] > 0)) sums[i] = std::numeric_limits<double>::infinity();
  }
  return sums;
}

/// Ends between zero and the outermost values: a coarse search, then a finer one around its best.
class SquaredErrorSearch {
 public:
  explicit SquaredErrorSearch(const Observer& observer)
      : values_(Occupied(observer)), whole_(WithZero(observer.min(), observer.max())) {}

  Range Run() {
    const int highs = whole_.high > 0 ? kHighs : 1, lows = whole_.low < 0 ? kLows : 1;
    for (int high = 0; high < highs; ++high) {
      for (int low = 0; low < lows; ++low) {
        Try(std::pow(kLowStep, low), std::pow(kHighStep, high));
      }
    }
    Settle();
    const double low = low_, high = high_;
    for (int i = -kFine; i <= kFine; ++i) {
      for (int j = -kFine; j <= kFine; ++j) {
        Try(std::min(1.0, low * std::pow(kLowStep, static_cast<double>(j) / (kFine + 1))),
            std::min(1.0, high * std::pow(kHighStep, static_cast<double>(i) / (kFine + 1))));
      }
    }
    Settle();
    return {low_ * whole_.low, high_ * whole_.high};
  }

 private:
  static constexpr int kHighs = 64, kLows = 16, kFine = 4;
  static constexpr double kHighStep = 0.95, kLowStep = 0.82;

  void Try(double low, double high) {
    waiting_[count_++] = {low, high};
    if (count_ == kSideBySide) Settle();
  }

  /// Of ranges that are alike the first is taken, as it came.
  void Settle() {
    if (count_ == 0) return;
    std::array<Range, kSideBySide> ranges;
    for (size_t i = 0; i < kSideBySide; ++i) {
      const Range& shares = waiting_[std::min(i, count_ - 1)];
      ranges[i] = {shares.low * whole_.low, shares.high * whole_.high};
    }
    const std::array<double, kSideBySide> errors = SquaredErrors(values_, ranges);
    for (size_t i = 0; i < count_; ++i) {
      if (!(errors[i] < least_)) continue;
      least_ = errors[i];
      low_ = waiting_[i].low;
      high_ = waiting_[i].high;
    }
    count_ = 0;
  }

  std::vector<Weighted> values_;
  Range whole_;
  std::array<Range, kSideBySide> waiting_;  // shares of the ends that no error is known of yet
  size_t count_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double low_ = 1, high_ = 1;  // shares of the ends
};

/// The divergence of what `levels` steps over the first `kept` bins leave of a histogram, whose
/// other bins are clipped to the last one.
double Divergence(std::span<const double> bins, size_t kept, int levels, double clipped,
                  std::vector<double>& coarse) {
  coarse.assign(kept, 0);
  const double stretch = static_cast<double>(kept) / levels;
  for (int level = 0; level < levels; ++level) {
    const double begin = level * stretch, end = (level + 1) * stretch;
    const auto first = static_cast<size_t>(begin);
    const size_t last = std::min(kept, static_cast<size_t>(std::ceil(end)));
    const auto part = [&](size_t bin) {
      const auto at = static_cast<double>(bin);
      return std::min(end, at + 1) - std::max(begin, at);
    };
    double mass = 0, occupied = 0;
    for (size_t bin = first; bin < last; ++bin) {
      mass += bins[bin] * part(bin);
      if (bins[bin] > 0) occupied += part(bin);
    }
    for (size_t bin = first; bin < last && occupied > 0; ++bin) {
      if (bins[bin] > 0) coarse[bin] += part(bin) * mass / occupied;
    }
  }
  double p_sum = clipped, q_sum = 0;
  for (size_t bin = 0; bin < kept; ++bin) {
    p_sum += bins[bin];
    q_sum += coarse[bin];
  }
  if (q_sum <= 0) return std::numeric_limits<double>::infinity();
  constexpr double kLeast = 1e-7;
  double divergence = 0;
  for (size_t bin = 0; bin < kept; ++bin) {
    const double p = (bins[bin] + (bin + 1 == kept ? clipped : 0)) / p_sum;
    if (p > 0) divergence += p * std::log(p / (coarse[bin] > 0 ? coarse[bin] / q_sum : kLeast));
  }
  return divergence;
}

Range KlRange(const Observer& observer) {
  const Histogram& histogram = observer.histogram();
  constexpr size_t kMagnitudes = 2048;
  std::vector<double> bins(kMagnitudes, 0);
  for (int i = 0; i < static_cast<int>(histogram.counts().size()); ++i) {
    constexpr int kHalf = Histogram::kBins / 2;
    const int magnitude = i >= kHalf ? i - kHalf : kHalf - 1 - i;
    bins[static_cast<size_t>(magnitude / 2)] +=
        static_cast<double>(histogram.counts()[static_cast<size_t>(i)]);
  }
  size_t occupied = bins.size();
  while (occupied > 0 && bins[occupied - 1] == 0) --occupied;
  const bool one_sided = observer.min() >= 0;
  const int levels = one_sided ? 256 : 128;
  double threshold = std::max(observer.max(), -observer.min());
  double least = std::numeric_limits<double>::infinity(), clipped = 0;
  std::vector<double> coarse;
  for (size_t kept = occupied; kept >= static_cast<size_t>(levels); --kept) {
    const double divergence = Divergence(bins, kept, levels, clipped, coarse);
    if (divergence < least) {
      least = divergence;
      const double end = (static_cast<double>(kept) + 0.5) * 2 * histogram.width();
      threshold = std::min(end, std::max(observer.max(), -observer.min()));
    }
    clipped += bins[kept - 1];
  }
  return one_sided ? Range{0, threshold} : Range{-threshold, threshold};
}

}  // namespace

std::string_view Name(Method method) {
  return std::find_if(kMethods.begin(), kMethods.end(),
                      [&](const auto& entry) { return entry.first == method; })
      ->second;
}

std::optional<Method> MethodOf(std::string_view name) {
  for (const auto& [method, text] : kMethods) {
    if (text == name) return method;
  }
  return {};
}

std::string MethodNames() {
  std::string names;
  for (const auto& entry : kMethods) {
    names += (names.empty() ? "" : ", ") + std::string(entry.second);
  }
  return names;
}

Range ChooseRange(const Observer& observer, Method method, double percentile) {
  if (observer.histogram().reach() == 0) return {0, 0};
  switch (method) {
    case Method::kMovingAverage: return WithZero(observer.moving_min(), observer.moving_max());
    case Method::kPercentile: return PercentileRange(observer, percentile);
    case Method::kKl: return KlRange(observer);
    case Method::kMse: return SquaredErrorSearch(observer).Run();
    case Method::kMinMax: break;
  }
  return WithZero(observer.min(), observer.max());
}

Range SymmetricRange(const Range& range) {
  if (range.low >= 0) return range;
  const double reach = std::max(-range.low, range.high);
  return {-reach, reach};
}

int Grid::Quantize(float value) const {
  const float steps = std::nearbyint(value * (1 / scale));
  return static_cast<int>(std::clamp(steps + static_cast<float>(zero_point), 0.0f, 255.0f));
}

Grid GridOf(const Range& range) {
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  if (low == high) return {1, 0};
  const double exact = (high - low) / 255;
  const auto scale = static_cast<float>(exact);
  if (!std::isfinite(scale) || !(scale >= 0x1p-100f && scale <= 0x1p+100f)) {
    throw Error(ErrorCode::kInvalidArgument, "a range of " + std::to_string(low) + " to " +
                                                 std::to_string(high) + " cannot be quantized");
  }
  // In this order a symmetric range gives 127.5, which rounds to 128, whatever its size is.
  return {scale, static_cast<int>(std::nearbyint(-low / (high - low) * 255))};
}

double ClippedShare(const Histogram& histogram, const Range& range) {
  if (histogram.total() == 0) return 0;
  uint64_t outside = 0;
  for (int bin = 0; bin < static_cast<int>(histogram.counts().size()); ++bin) {
    const bool inside = histogram.Edge(bin + 1) > range.low && histogram.Edge(bin) <= range.high;
    if (!inside) outside += histogram.counts()[static_cast<size_t>(bin)];
  }
  return static_cast<double>(outside) / static_cast<double>(histogram.total());
}

namespace {

constexpr float kMostWeight = 127;

/// Scales that are tried: `largest` / 127 and those below it, down to half of it.
constexpr size_t kScales = 51;
/// As many as fill whole vectors.
constexpr size_t kScaleLanes = 52;

/// The squared error of a row for each scale. The errors are summed side by side, each in the
/// order of the weights.
void RowErrors(std::span<const float> row, const std::array<float, kScaleLanes>& scales,
               std::array<double, kScaleLanes>& sums) {
  constexpr float kRounding = 0x1.8p23f;  // a sum with it has no bits behind the point
  std::array<float, kScaleLanes> inverses{};
  for (size_t i = 0; i < kScaleLanes; ++i) inverses[i] = 1 / scales[i];
  sums.fill(0);
  for (const float weight : row) {
    for (size_t i = 0; i < kScaleLanes; ++i) {
      float q = weight * inverses[i];
      q = q > -kMostWeight ? q : -kMostWeight;
      q = q < kMostWeight ? q : kMostWeight;
      q = (q + kRounding) - kRounding;
      const double error = static_cast<double>(weight) - static_cast<double>(q * scales[i]);
      sums[i] += error * error;
    }
  }
}

/// The best of the scales that are tried; of equal ones the largest.
float RowScale(std::span<const float> row, float largest, WeightMethod method) {
  if (method == WeightMethod::kMinMax) return largest / kMostWeight;
  std::array<float, kScaleLanes> scales;
  for (size_t i = 0; i < kScaleLanes; ++i) {
    scales[i] = largest * (1 - 0.01f * static_cast<float>(i)) / kMostWeight;
  }
  std::array<double, kScaleLanes> errors{};
  RowErrors(row, scales, errors);
  return scales[static_cast<size_t>(std::min_element(errors.begin(), errors.begin() + kScales) -
                                    errors.begin())];
}

/// Rounds a row of weights with its scale.
void RoundRow(std::span<const float> row, float scale, std::span<int8_t> values) {
  constexpr float kRounding = 0x1.8p23f;
  const float inverse = 1 / scale;
  for (size_t k = 0; k < row.size(); ++k) {
    float q = row[k] * inverse;
    q = q > -kMostWeight ? q : -kMostWeight;
    q = q < kMostWeight ? q : kMostWeight;
    values[k] = static_cast<int8_t>((q + kRounding) - kRounding);
  }
}

}  // namespace

QuantizedWeights QuantizeRows(std::span<const float> weights, int64_t rows, WeightMethod method,
                              int threads) {
  QuantizedWeights result;
  result.values.resize(weights.size());
  result.scales.resize(static_cast<size_t>(rows));
  const size_t columns = rows == 0 ? 0 : weights.size() / static_cast<size_t>(rows);
  const auto row = [&](size_t index) { return weights.subspan(index * columns, columns); };
  std::vector<float> largest(result.scales.size(), 0);
  for (size_t i = 0; i < largest.size(); ++i) {
    for (const float weight : row(i)) {
      if (!std::isfinite(weight)) {
        throw Error(ErrorCode::kInvalidArgument, "a weight is NaN or infinite");
      }
      largest[i] = std::max(largest[i], std::fabs(weight));
    }
  }
  const float most = largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
  const float floor = most > 0 ? std::max(most / kMostWeight * 0x1p-20f, 0x1p-100f) : 1;
  const double flops = 10.0 * static_cast<double>(kScaleLanes * columns);
  ParallelFor(threads, rows, GrainOf({.flops = flops}), [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const float scale = largest[i] > 0 ? RowScale(row(i), largest[i], method) : floor;
      result.scales[i] = std::max(scale, floor);
      RoundRow(row(i), result.scales[i], std::span(result.values).subspan(i * columns, columns));
    }
  });
  return result;
}

QuantizedWeights QuantizeAlike(std::span<const float> weights, int64_t rows, WeightMethod method,
                               int threads) {
  QuantizedWeights result = QuantizeRows(weights, rows == 0 ? 0 : 1, method, threads);
  if (rows > 0) result.scales.assign(static_cast<size_t>(rows), result.scales.front());
  return result;
}

}  // namespace oort::quantize
