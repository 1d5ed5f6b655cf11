// SPDX-License-Identifier: MIT
#include "quantize/observer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace oort::quantize {
namespace {

/// Bins of a smaller reach would have no normal f32 as their width.
constexpr int kLeastExponent = -100;

struct Ends {
  float low, high;
  bool finite;
};

/// Of at least one value. Several of each are found at a time, as vectors can.
Ends EndsOf(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> low, high, nothing{};  // 0 times a number, but for NaN and infinity
  low.fill(values.front());
  high.fill(values.front());
  const auto add = [&](size_t lane, float value) {
    low[lane] = value < low[lane] ? value : low[lane];
    high[lane] = value > high[lane] ? value : high[lane];
    nothing[lane] += value * 0.0f;
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, values[i + lane]);
  }
  for (; i < values.size(); ++i) add(0, values[i]);
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end()),
          std::all_of(nothing.begin(), nothing.end(), [](float sum) { return sum == 0; })};
}

}  // namespace

void Histogram::GrowTo(float magnitude) {
  if (magnitude == 0 || (reach_ > 0 && magnitude < reach_)) return;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  const double wanted = std::ldexp(1.0, std::max(exponent, kLeastExponent));
  if (counts_.empty()) {
    counts_.assign(kBins, 0);
    reach_ = wanted;
    return;
  }
  for (; reach_ < wanted; reach_ *= 2) {
    std::vector<uint64_t> merged(kBins, 0);
    for (int i = 0; i < kBins; ++i) {
      merged[static_cast<size_t>(kBins / 4 + i / 2)] += counts_[static_cast<size_t>(i)];
    }
    counts_ = std::move(merged);
  }
}

void Histogram::Add(std::span<const float> values, float most) {
  GrowTo(most);
  total_ += values.size();
  if (most == 0) {
    zeros_ += values.size();
    return;
  }
  // A product with a power of two is exact, and so is the floor of it: no value is in a wrong bin.
  const auto scale = static_cast<float>(kBins / 2 / reach_);
  uint64_t* middle = counts_.data() + kBins / 2;
  uint64_t zeros = 0;
  for (const float value : values) {
    if (value == 0) {
      ++zeros;
      continue;
    }
    const float place = value * scale;
    const int whole = static_cast<int>(place);
    ++middle[whole - (static_cast<float>(whole) > place ? 1 : 0)];
  }
  zeros_ += zeros;
}

bool Observer::Add(std::span<const float> values) {
  if (values.empty()) return true;
  const Ends ends = EndsOf(values);
  if (!ends.finite) return false;
  const float low = ends.low, high = ends.high;
  if (empty()) {
    min_ = moving_min_ = low;
    max_ = moving_max_ = high;
  } else {
    min_ = std::min<double>(min_, low);
    max_ = std::max<double>(max_, high);
    moving_min_ += kMomentum * (low - moving_min_);
    moving_max_ += kMomentum * (high - moving_max_);
  }
  histogram_.Add(values, std::max(std::fabs(low), std::fabs(high)));
  return true;
}

}  // namespace oort::quantize
