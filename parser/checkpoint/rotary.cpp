// SPDX-License-Identifier: MIT
#include "parser/checkpoint/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "oort/error.h"

namespace oort {
namespace {

constexpr int64_t kMostDims = 65536;

void Require(bool condition, const char* message) {
  if (!condition) throw Error(ErrorCode::kInvalidModel, message);
}

bool IsPositive(double number) { return std::isfinite(number) && number > 0; }

/// base^(2i / dims): positions in which pair i turns by one radian.
std::vector<float> PeriodsOf(int64_t dims, double base) {
  std::vector<float> periods(static_cast<size_t>(dims / 2));
  for (size_t i = 0; i < periods.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dims);
    periods[i] = static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return periods;
}

std::vector<float> Inverse(const std::vector<float>& periods) {
  std::vector<float> frequencies(periods.size());
  for (size_t i = 0; i < periods.size(); ++i) frequencies[i] = 1.0F / periods[i];
  return frequencies;
}

/// 1 / (factor * period), each by its own factor.
std::vector<float> InverseBy(const std::vector<float>& factors, const std::vector<float>& periods) {
  if (factors.size() != periods.size()) {
    throw Error(ErrorCode::kInvalidModel,
                "a rotary embedding of " + std::to_string(2 * periods.size()) +
                    " dimensions needs " + std::to_string(periods.size()) +
                    " factors of its frequencies, but has " + std::to_string(factors.size()));
  }
  std::vector<float> frequencies(periods.size());
  for (size_t i = 0; i < periods.size(); ++i) frequencies[i] = 1.0F / (factors[i] * periods[i]);
  return frequencies;
}

void StretchLikeLlama3(const RotaryScaling& scaling, std::vector<float>& frequencies) {
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  Require(IsPositive(low) && IsPositive(high) && high > low,
          "llama3's rope scaling needs 0 < low_freq_factor < high_freq_factor");
  const auto context = static_cast<float>(scaling.original_context);
  const auto factor = static_cast<float>(scaling.factor);
  const auto longest = static_cast<float>(static_cast<double>(scaling.original_context) / low);
  const auto shortest = static_cast<float>(static_cast<double>(scaling.original_context) / high);
  for (float& frequency : frequencies) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wave > longest) {
      frequency /= factor;
    } else if (!(wave < shortest)) {
      const float smooth =
          (context / wave - static_cast<float>(low)) / static_cast<float>(high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

double YarnMagnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double YarnMagnitude(const RotaryScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  if (scaling.mscale.value_or(0) != 0 && scaling.mscale_all_dim.value_or(0) != 0) {
    return YarnMagnitude(scaling.factor, *scaling.mscale) /
           YarnMagnitude(scaling.factor, *scaling.mscale_all_dim);
  }
  return YarnMagnitude(scaling.factor, 1);
}

std::vector<float> YarnFrequencies(int64_t dims, double base, const RotaryScaling& scaling,
                                   const std::vector<float>& periods) {
  Require(base > 1, "yarn's rope scaling needs a base above 1");
  Require(IsPositive(scaling.beta_fast) && IsPositive(scaling.beta_slow),
          "yarn's rope scaling needs beta_fast and beta_slow above 0");
  const auto correction = [&](double rotations) {
    return static_cast<double>(dims) *
           std::log(static_cast<double>(scaling.original_context) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  double low = correction(scaling.beta_fast), high = correction(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  const auto factor = static_cast<float>(scaling.factor);
  std::vector<float> frequencies(periods.size());
  for (size_t i = 0; i < periods.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F,
        1.0F);
    const float kept = (1 - ramp) * static_cast<float>(scaling.extrapolation);
    frequencies[i] = 1.0F / (factor * periods[i]) * (1 - kept) + 1.0F / periods[i] * kept;
  }
  return frequencies;
}

void MakeLongrope(const RotaryScaling& scaling, const std::vector<float>& periods,
                  RotaryConfig& rotary) {
  rotary.frequencies = InverseBy(scaling.short_factors, periods);
  rotary.long_frequencies = InverseBy(scaling.long_factors, periods);
  rotary.original_context = scaling.original_context;
  double magnitude = 1;
  if (scaling.attention_factor) {
    magnitude = *scaling.attention_factor;
  } else if (scaling.factor > 1) {
    Require(scaling.original_context > 1, "longrope needs an original context above 1");
    magnitude = std::sqrt(1 + std::log(scaling.factor) /
                                  std::log(static_cast<double>(scaling.original_context)));
  }
  rotary.magnitude = rotary.long_magnitude = static_cast<float>(magnitude);
}

}  // namespace

RotaryConfig MakeRotary(int64_t dims, double base, const RotaryScaling& scaling) {
  using Kind = RotaryScaling::Kind;
  if (dims < 0 || dims % 2 != 0 || dims > kMostDims) {
    throw Error(
        ErrorCode::kInvalidModel,
        "a rotary embedding turns an even number of dimensions, not " + std::to_string(dims));
  }
  Require(IsPositive(base), "the base of a rotary embedding is a number above 0");
  Require(IsPositive(scaling.factor), "the factor of rope scaling is a number above 0");
  const bool needs_context = scaling.kind == Kind::kLlama3 || scaling.kind == Kind::kYarn ||
                             scaling.kind == Kind::kLongrope;
  Require(!needs_context || scaling.original_context > 0,
          "this rope scaling needs the original context length");
  RotaryConfig rotary;
  rotary.dims = dims;
  const std::vector<float> periods = PeriodsOf(dims, base);
  rotary.frequencies = Inverse(periods);
  switch (scaling.kind) {
    case Kind::kNone: break;
    case Kind::kLinear:
      for (float& frequency : rotary.frequencies) frequency /= static_cast<float>(scaling.factor);
      break;
    case Kind::kLlama3: StretchLikeLlama3(scaling, rotary.frequencies); break;
    case Kind::kYarn:
      rotary.frequencies = YarnFrequencies(dims, base, scaling, periods);
      rotary.magnitude = static_cast<float>(YarnMagnitude(scaling));
      break;
    case Kind::kLongrope: MakeLongrope(scaling, periods, rotary); break;
    case Kind::kDivided: rotary.frequencies = InverseBy(scaling.short_factors, periods); break;
  }
  return rotary;
}

}  // namespace oort
