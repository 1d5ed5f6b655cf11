// SPDX-License-Identifier: MIT
#include "core/random.h"

#include <atomic>
#include <cmath>
#include <numbers>

#include "oort/random.h"

namespace oort {
namespace {

constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

/// A bijection of 64 bits in which every bit of the input moves half of the output (SplitMix64).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::atomic<uint64_t> next_series = 0;

}  // namespace

uint64_t RandomSeries::Bits(int64_t i) const {
  return Mix(key_ + static_cast<uint64_t>(i + 1) * kGoldenRatio);
}

double RandomSeries::Uniform(int64_t i) const {
  return static_cast<double>(Bits(i) >> 11) * 0x1p-53;
}

double RandomSeries::Normal(int64_t i) const {
  // Box and Muller; 1 - u is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(2 * i)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(2 * i + 1));
}

RandomSeries NextRandomSeries() { return RandomSeries(Mix(next_series++)); }

// Seeds far apart, so that the series of two seeds do not meet.
void SetRandomSeed(uint64_t seed) { next_series = seed == 0 ? 0 : Mix(seed); }

}  // namespace oort
