// SPDX-License-Identifier: MIT
#include "quantize/observer.h"

#include <algorithm>
#include <cmath>

namespace oort::quantize {
namespace {

/// Bins of a smaller reach would have no normal f32 as their width.
constexpr int kLeastExponent = -100;

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

void Histogram::Add(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::fabs(value));
  GrowTo(most);
  total_ += values.size();
  if (most == 0) {
    zeros_ += values.size();
    return;
  }
  // A product with a power of two is exact, and so is the floor of it: no value is in a wrong bin.
  const auto scale = static_cast<float>(kBins / 2 / reach_);
  uint64_t zeros = 0;
  for (const float value : values) {
    if (value == 0) {
      ++zeros;
    } else {
      ++counts_[static_cast<size_t>(static_cast<int>(std::floor(value * scale)) + kBins / 2)];
    }
  }
  zeros_ += zeros;
}

bool Observer::Add(std::span<const float> values) {
  if (values.empty()) return true;
  float low = values.front(), high = values.front();
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (!finite) return false;
  if (empty()) {
    min_ = moving_min_ = low;
    max_ = moving_max_ = high;
  } else {
    min_ = std::min<double>(min_, low);
    max_ = std::max<double>(max_, high);
    moving_min_ += kMomentum * (low - moving_min_);
    moving_max_ += kMomentum * (high - moving_max_);
  }
  histogram_.Add(values);
  return true;
}

}  // namespace oort::quantize
