// SPDX-License-Identifier: MIT
// Random numbers by position: element i of a series needs none of those before it, so a series can
// be filled by any number of threads and stays the same.
#pragma once

#include <cstdint>

namespace oort {

class RandomSeries {
 public:
  explicit RandomSeries(uint64_t key) : key_(key) {}
  /// 64 random bits.
  uint64_t Bits(int64_t i) const;
  /// In [0, 1), with 53 random bits.
  double Uniform(int64_t i) const;
  /// Mean 0, variance 1.
  double Normal(int64_t i) const;

 private:
  uint64_t key_;
};

/// A series that nobody had since SetRandomSeed.
RandomSeries NextRandomSeries();

}  // namespace oort
