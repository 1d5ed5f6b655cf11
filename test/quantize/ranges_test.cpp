// SPDX-License-Identifier: MIT
// Histograms, ranges, grids and scales of weights beside plain numpy (make_goldens.py).
#include "quantize/ranges.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kit/paths.h"
#include "oort/npy.h"
#include "oort/testing.h"

namespace oort::quantize {
namespace {

const std::string kGoldens = TestData().string() + "/quantize/goldens/";

const nlohmann::json& Goldens() {
  static const nlohmann::json goldens = [] {
    std::ifstream file(kGoldens + "goldens.json");
    return nlohmann::json::parse(file);
  }();
  return goldens;
}

Observer ObserverOf(const Tensor& samples) {
  Observer observer;
  for (int64_t i = 0; i < samples.dim(0); ++i) {
    EXPECT_TRUE(observer.Add(samples.Rows(i, i + 1).span<float>()));
  }
  return observer;
}

class RangesTest : public ::testing::TestWithParam<const char*> {
 protected:
  const Tensor samples_ = ReadNpy(kGoldens + GetParam() + std::string(".npy"));
  const nlohmann::json& golden_ = Goldens()["ranges"][GetParam()];
};

INSTANTIATE_TEST_SUITE_P(Ranges, RangesTest,
                         ::testing::Values("normal", "relu", "relu6", "tail", "negative",
                                           "lopsided"));

TEST_P(RangesTest, HistogramsAreNumpys) {
  const Observer observer = ObserverOf(samples_);
  const Histogram& histogram = observer.histogram();
  EXPECT_EQ(histogram.reach(), golden_["reach"].get<double>());
  for (const auto& [bin, count] : golden_["counts"].items()) {
    EXPECT_EQ(histogram.counts()[std::stoul(bin)], count.get<uint64_t>()) << "bin " << bin;
  }
  uint64_t sum = histogram.zeros();
  for (const uint64_t count : histogram.counts()) sum += count;
  EXPECT_EQ(sum, static_cast<uint64_t>(samples_.elements()));
  EXPECT_EQ(histogram.total(), sum);
}

TEST_P(RangesTest, RangesAndGridsAreNumpys) {
  const Observer observer = ObserverOf(samples_);
  for (const auto& [name, ends] : golden_["ranges"].items()) {
    const Range range = ChooseRange(observer, *MethodOf(name), 99.9);
    const double width = ends[1].get<double>() - ends[0].get<double>();
    EXPECT_NEAR(range.low, ends[0].get<double>(), 1e-9 * width) << name;
    EXPECT_NEAR(range.high, ends[1].get<double>(), 1e-9 * width) << name;
    const Grid grid = GridOf(range);
    EXPECT_FLOAT_EQ(grid.scale, golden_["grids"][name][0].get<float>()) << name;
    EXPECT_EQ(grid.zero_point, golden_["grids"][name][1].get<int>()) << name;
  }
}

TEST_P(RangesTest, OrderAndPiecesChangeNothing) {
  const Observer whole = ObserverOf(samples_);
  Observer pieces;
  const std::span<const float> values = samples_.span<float>();
  for (size_t end = values.size(); end > 0; end -= std::min<size_t>(end, 777)) {
    const size_t begin = end - std::min<size_t>(end, 777);
    ASSERT_TRUE(pieces.Add(values.subspan(begin, end - begin)));
  }
  EXPECT_EQ(pieces.min(), whole.min());
  EXPECT_EQ(pieces.max(), whole.max());
  EXPECT_EQ(pieces.histogram().reach(), whole.histogram().reach());
  EXPECT_TRUE(std::ranges::equal(pieces.histogram().counts(), whole.histogram().counts()));
  for (const Method method : {Method::kPercentile, Method::kKl, Method::kMse}) {
    EXPECT_EQ(ChooseRange(pieces, method), ChooseRange(whole, method)) << Name(method);
  }
}

TEST_P(RangesTest, ValuesInsideMoveByHalfAStepAtMost) {
  const Range range = ChooseRange(ObserverOf(samples_), Method::kMinMax);
  const Grid grid = GridOf(range);
  EXPECT_EQ(grid.Round(0), 0);
  for (const float value : samples_.span<float>()) {
    // The zero point is rounded, too: the outermost values may lie half a step outside.
    EXPECT_LE(std::fabs(grid.Round(value) - value), grid.scale * 1.0001f);
    const int q = grid.Quantize(value);
    EXPECT_EQ(grid.Quantize(grid.Dequantize(q)), q);
  }
}

TEST(ObserverTest, RefusesWhatIsNotFinite) {
  Observer observer;
  const std::vector<float> good = {1, 2}, nan = {1, std::nanf("")};
  const std::vector<float> infinite = {-std::numeric_limits<float>::infinity(), 0};
  EXPECT_TRUE(observer.Add(good));
  EXPECT_FALSE(observer.Add(nan));
  EXPECT_FALSE(observer.Add(infinite));
  EXPECT_EQ(observer.histogram().total(), 2u);
  EXPECT_EQ(observer.max(), 2);
}

TEST(ObserverTest, ConstantsAndTinyNumbers) {
  Observer zeros;
  EXPECT_TRUE(zeros.Add(std::vector<float>(100, 0.0f)));
  for (const Method method :
       {Method::kMinMax, Method::kMovingAverage, Method::kPercentile, Method::kKl, Method::kMse}) {
    EXPECT_EQ(ChooseRange(zeros, method), (Range{0, 0}));
  }
  EXPECT_EQ(GridOf({0, 0}), (Grid{1, 0}));
  Observer one;
  EXPECT_TRUE(one.Add(std::vector<float>(100, 5.0f)));
  EXPECT_EQ(ChooseRange(one, Method::kMinMax), (Range{0, 5}));
  EXPECT_NEAR(ChooseRange(one, Method::kKl).high, 5, 0.01);
  Observer tiny;
  EXPECT_TRUE(tiny.Add(std::vector<float>{1e-40f, -1e-44f}));
  EXPECT_EQ(tiny.histogram().total(), 2u);
  EXPECT_THROW(GridOf(ChooseRange(tiny, Method::kMinMax)), Error);
  EXPECT_THROW(GridOf({0, 1e300}), Error);
}

TEST(GridTest, RoundsHalfToEvenAndClamps) {
  const Grid grid{0.5f, 10};
  EXPECT_EQ(grid.Quantize(0.25f), 10);
  EXPECT_EQ(grid.Quantize(0.75f), 12);
  EXPECT_EQ(grid.Quantize(-0.75f), 8);
  EXPECT_EQ(grid.Quantize(1e30f), 255);
  EXPECT_EQ(grid.Quantize(-1e30f), 0);
  EXPECT_EQ(grid.Dequantize(0), -5);
}

TEST(WeightsTest, RowsAreNumpys) {
  const Tensor weights = ReadNpy(kGoldens + "weights.npy");
  for (const auto& [name, golden] : Goldens()["weights"].items()) {
    const QuantizedWeights rows =
        QuantizeRows(weights.span<float>(), weights.dim(0),
                     name == "mse" ? WeightMethod::kMse : WeightMethod::kMinMax);
    EXPECT_EQ(rows.scales, golden["scales"].get<std::vector<float>>()) << name;
    EXPECT_EQ(rows.values, golden["values"].get<std::vector<int8_t>>()) << name;
  }
  std::vector<float> bad = {1, std::nanf("")};
  EXPECT_THROW(QuantizeRows(bad, 2, WeightMethod::kMse), Error);
}

TEST(WeightsTest, ThreadsChangeNothing) {
  const Tensor weights = testing::RandomTensor(DType::kF32, Shape{97, 300}, 3, -1, 1);
  const QuantizedWeights one = QuantizeRows(weights.span<float>(), 97, WeightMethod::kMse);
  const QuantizedWeights three = QuantizeRows(weights.span<float>(), 97, WeightMethod::kMse, 3);
  EXPECT_EQ(one.values, three.values);
  EXPECT_EQ(one.scales, three.scales);
}

TEST(WeightsTest, OneScaleIsThatOfAll) {
  const Tensor weights = ReadNpy(kGoldens + "weights.npy");
  for (const WeightMethod method : {WeightMethod::kMinMax, WeightMethod::kMse}) {
    const QuantizedWeights alike = QuantizeAlike(weights.span<float>(), weights.dim(0), method);
    const QuantizedWeights row = QuantizeRows(weights.span<float>(), 1, method);
    EXPECT_EQ(alike.values, row.values);
    EXPECT_EQ(alike.scales,
              std::vector<float>(static_cast<size_t>(weights.dim(0)), row.scales.at(0)));
  }
  EXPECT_TRUE(QuantizeAlike({}, 0, WeightMethod::kMse).scales.empty());
}

TEST(SymmetricRangeTest, ReachesAsFarBelowAsAbove) {
  EXPECT_EQ(SymmetricRange({-1, 3}), (Range{-3, 3}));
  EXPECT_EQ(SymmetricRange({-5, 3}), (Range{-5, 5}));
  EXPECT_EQ(SymmetricRange({0, 3}), (Range{0, 3})) << "a bit would be lost for nothing";
  EXPECT_EQ(GridOf(SymmetricRange({-1, 3})).zero_point, 128);
}

TEST(ClippedShareTest, CountsWhatLiesOutside) {
  Observer observer;
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.01f;
  ASSERT_TRUE(observer.Add(values));
  EXPECT_EQ(ClippedShare(observer.histogram(), {0, 20}), 0);
  EXPECT_NEAR(ClippedShare(observer.histogram(), {0, 5}), 0.5, 0.002);
}

}  // namespace
}  // namespace oort::quantize
