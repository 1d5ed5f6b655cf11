// SPDX-License-Identifier: MIT
// What calibration does to values, on every instruction set, beside plain loops.
#include "quantize/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "oort/testing.h"
#include "quantize/observer.h"
#include "quantize/ranges.h"

namespace oort::quantize {
namespace {

/// Half of them zeros, and many of one size, as behind ReLU6.
std::vector<float> Values(int64_t count) {
  const Tensor random = testing::RandomTensor(DType::kF32, Shape{count}, 11, -9, 9);
  std::vector<float> values(random.span<float>().begin(), random.span<float>().end());
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 3 == 0) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (i % 7 == 0) values[i] = 6;
    if (i % 11 == 0) values[i] *= 1e-7f;
  }
  return values;
}

class CalibrationTest : public ::testing::TestWithParam<Isa> {
 protected:
  const CalibrationKernels& kernels_ = CalibrationKernelsFor(GetParam());
};

TEST_P(CalibrationTest, CountsAreThoseOfAPlainLoop) {
  for (const int64_t count : {1, 7, 255, 256, 257, 4099}) {
    const std::vector<float> values = Values(count);
    constexpr float kScale = 256;  // reaches to 16
    std::vector<uint32_t> counts(BinCounts::kTables * BinCounts::kSlots, 0);
    kernels_.count(values.data(), count, kScale, counts.data());
    std::vector<uint32_t> want(BinCounts::kBins + 1, 0), got(want.size(), 0);
    for (const float value : values) {
      const auto bin = static_cast<size_t>(std::floor(value * kScale)) + BinCounts::kBins / 2;
      ++want[value == 0 ? static_cast<size_t>(BinCounts::kBins) : bin];
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      got[std::min<size_t>(i % BinCounts::kSlots, BinCounts::kBins)] += counts[i];
    }
    EXPECT_EQ(got, want) << count;
  }
}

TEST_P(CalibrationTest, EndsAreTheLeastAndTheGreatest) {
  for (const size_t count : {1u, 5u, 16u, 33u, 1000u}) {
    std::vector<float> values = Values(static_cast<int64_t>(count));
    float low = 0, high = 0;
    const auto finite = [&] {
      return kernels_.ends(values.data(), static_cast<int64_t>(count), &low, &high);
    };
    EXPECT_TRUE(finite());
    EXPECT_EQ(low, *std::ranges::min_element(values));
    EXPECT_EQ(high, *std::ranges::max_element(values));
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      for (const size_t at : {size_t{0}, count / 2, count - 1}) {
        const float before = std::exchange(values[at], bad);
        EXPECT_FALSE(finite()) << count << " " << at;
        values[at] = before;
      }
    }
  }
}

TEST_P(CalibrationTest, RoundsAsTheGridDoes) {
  const Grid grid{0.03f, 100};
  const std::vector<float> values = Values(1003);
  std::vector<float> rounded(values.size());
  kernels_.round(values.data(), rounded.data(), 1003, 1 / grid.scale, -100, 155, grid.scale);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(rounded[i], grid.Round(values[i]));
}

TEST_P(CalibrationTest, RowsAreAddedInTheirOrder) {
  const std::vector<float> values = Values(4 * 60);
  for (const int64_t width : {1, 8, 37, 60}) {
    std::vector<double> want(static_cast<size_t>(width), 0.5), got = want;
    for (size_t row = 0; row < 4; ++row) {
      for (size_t i = 0; i < want.size(); ++i) want[i] += double(values[row * 60 + i]);
    }
    kernels_.add_rows(values.data(), 60, 4, got.data(), width);
    EXPECT_EQ(got, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, CalibrationTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& isa) { return std::string(Name(isa.param)); });

TEST(ObserverThreadsTest, SeveralCountAsOneDoes) {
  const std::vector<float> values = Values(300001);
  Observer one, three;
  for (const float factor : {1.0f, 5.0f}) {
    std::vector<float> scaled = values;
    for (float& value : scaled) value *= factor;
    ASSERT_TRUE(one.Add(scaled));
    ASSERT_TRUE(three.Add(scaled, 3));
  }
  EXPECT_EQ(one.min(), three.min());
  EXPECT_EQ(one.moving_max(), three.moving_max());
  EXPECT_EQ(one.histogram().zeros(), three.histogram().zeros());
  EXPECT_EQ(one.histogram().total(), 2 * values.size());
  EXPECT_TRUE(std::ranges::equal(one.histogram().counts(), three.histogram().counts()));
  std::vector<float> bad = values;
  bad.back() = std::nanf("");
  EXPECT_FALSE(three.Add(bad, 3));
}

}  // namespace
}  // namespace oort::quantize
