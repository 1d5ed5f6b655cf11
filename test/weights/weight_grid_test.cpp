// SPDX-License-Identifier: MIT
// Rows in fewer bits: the blocks of GGUF written as they are read, and the search for scales beside
// one that tries everything.
#include "weights/weight_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kit/errors.h"
#include "kit/paths.h"
#include "oort/npy.h"
#include "weights/weight_blocks.h"
#include "weights/write_blocks.h"

namespace oort {
namespace {

using testing::ExpectThrows;

constexpr WeightFormat kWrittenBlocks[] = {
    WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ5_0, WeightFormat::kQ5_1,
    WeightFormat::kQ8_0, WeightFormat::kQ4K,  WeightFormat::kQ5K,  WeightFormat::kQ6K};

std::vector<float> NormalNumbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    // A sum of uniform numbers is the same with every standard library.
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += static_cast<double>(random()) / 4294967296.0 - 0.5;
    value = static_cast<float>(0.05 * sum);
  }
  return values;
}

double WeightedError(std::span<const float> a, std::span<const float> b,
                     std::span<const float> importance) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double weight = importance.empty() ? 1 : static_cast<double>(importance[i]);
    sum += weight * std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  }
  return sum;
}

std::vector<float> ThroughFormat(const QuantizeOptions& options, std::span<const float> row,
                                 std::span<const float> importance) {
  const auto columns = static_cast<int64_t>(row.size());
  StoredMatrix matrix = AllocateStored(options, 1, columns);
  QuantizeRows(row.data(), 0, 1, matrix, importance);
  std::vector<float> values(row.size());
  ReadRows(matrix, 0, 1, values.data());
  return values;
}

/// Blocks of any bytes, taken apart and put together again, are the same bytes. What they hold is
/// told by the package gguf (see weight_format_test.cpp), so that llama.cpp reads them as Oort
/// does.
TEST(WriteBlocks, AreTheBytesThatWereRead) {
  for (const WeightFormat format : kWrittenBlocks) {
    SCOPED_TRACE(Name(format));
    StoredMatrix from{format,
                      3,
                      512,
                      ReadNpy(TestData().string() + "/weights/weight_blocks/" +
                              std::string(Name(format)) + ".blocks.npy"),
                      {},
                      {}};
    const BlockFormat& block = *BlockFormatOf(format);
    const auto elements = static_cast<size_t>(block.elements);
    const size_t groups = elements / static_cast<size_t>(block.layout.group);
    for (size_t i = 0; i < 3 * 512 / elements; ++i) {
      const std::byte* bytes = from.data.raw() + i * static_cast<size_t>(block.bytes);
      std::vector<int8_t> codes(elements);
      std::vector<float> scale(groups), minimum(groups);
      block.read(bytes, 1, codes.data(), scale.data(), minimum.data());
      BlockParts parts{codes.data(), scale[0], minimum[0], nullptr, nullptr};
      std::vector<int> scales(groups), minimums(groups);
      if (block.read_steps != nullptr) {
        block.read_steps(bytes, 1, &parts.scale, &parts.minimum);
        for (size_t g = 0; g < groups; ++g) {
          scales[g] = static_cast<int>(std::lround(scale[g] / parts.scale));
          if (!block.layout.has_minimum) continue;
          minimums[g] = static_cast<int>(std::lround(minimum[g] / parts.minimum));
        }
        parts.minimum = -parts.minimum;  // minimums are subtracted
        parts.scale_counts = scales.data();
        parts.minimum_counts = minimums.data();
      }
      std::vector<std::byte> got(static_cast<size_t>(block.bytes));
      WriteBlock(format, parts, got.data());
      EXPECT_EQ(std::memcmp(got.data(), bytes, got.size()), 0) << "block " << i;
    }
  }
}

TEST(WeightGrid, EveryWrittenTypeComesBackNear) {
  const std::vector<float> row = NormalNumbers(512, 1);
  const double whole = WeightedError(row, std::vector<float>(row.size(), 0), {});
  // What uniform rounding of such numbers loses at most, by the bits.
  const std::pair<WeightFormat, double> cases[] = {
      {WeightFormat::kQ4_0, 8e-3},   {WeightFormat::kQ4_1, 6e-3}, {WeightFormat::kQ5_0, 2e-3},
      {WeightFormat::kQ5_1, 1.5e-3}, {WeightFormat::kQ8_0, 5e-5}, {WeightFormat::kQ4K, 7e-3},
      {WeightFormat::kQ5K, 2e-3},    {WeightFormat::kQ6K, 5e-4}};
  for (const auto& [format, most] : cases) {
    SCOPED_TRACE(Name(format));
    const double lost = WeightedError(row, ThroughFormat({format}, row, {}), {});
    EXPECT_LT(lost, most * whole);
    EXPECT_GT(lost, 0);
  }
}

TEST(WeightGrid, KeepsWhatItsCodesSay) {
  const std::vector<float> row = NormalNumbers(512, 2);
  for (const WeightFormat format : kWrittenBlocks) {
    SCOPED_TRACE(Name(format));
    const WeightGrid grid({format}, 512);
    const RowGrid fit = grid.Fit(row, {});
    std::vector<int8_t> codes(512);
    grid.Round(row, fit, codes);
    StoredMatrix matrix = AllocateStored({format}, 1, 512);
    grid.Store(fit, codes, 0, matrix);
    std::vector<float> values(512);
    ReadRows(matrix, 0, 1, values.data());
    for (size_t i = 0; i < 512; ++i) {
      const GroupFit& group = fit.groups[i / static_cast<size_t>(grid.group())];
      const float product = group.scale * static_cast<float>(codes[i]);
      EXPECT_EQ(values[i], group.minimum == 0 ? product : product + group.minimum);
    }
  }
}

/// Hundreds of scales to either side of the plain one.
double BestByTrying(std::span<const float> x, std::span<const float> importance,
                    const CodeRange& codes) {
  float most = 0;
  for (const float value : x) most = std::max(most, std::abs(value));
  double best = std::numeric_limits<double>::infinity();
  for (int i = 300; i <= 1600; i += 4) {
    for (const float sign : {1.0F, -1.0F}) {
      const GroupFit fit{sign * most / 7.5F * static_cast<float>(i) / 1000, 0};
      std::vector<float> stored;
      for (const float value : x) {
        stored.push_back(fit.scale * static_cast<float>(NearestCode(value, fit, codes)));
      }
      best = std::min(best, WeightedError(x, stored, importance));
    }
  }
  return best;
}

TEST(WeightGrid, FindsNearlyTheBestScale) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const std::vector<float> x = NormalNumbers(64, 100 + seed);
    std::vector<float> importance = NormalNumbers(64, 200 + seed);
    for (float& weight : importance) weight = std::exp(60 * weight);
    for (const auto& weights : {std::vector<float>{}, importance}) {
      const std::vector<float> stored =
          ThroughFormat({WeightFormat::kInt4, 64, DType::kF32}, x, weights);
      EXPECT_LE(WeightedError(x, stored, weights), 1.1 * BestByTrying(x, weights, {-8, 7, 8}));
    }
  }
}

TEST(WeightGrid, ImportanceMovesTheErrorElsewhere) {
  const std::vector<float> row = NormalNumbers(512, 5);
  std::vector<float> importance(512, 1);
  for (size_t i = 0; i < 512; i += 7) importance[i] = 100;
  for (const WeightFormat format : kWrittenBlocks) {
    if (format == WeightFormat::kQ8_0) continue;  // the largest number decides
    SCOPED_TRACE(Name(format));
    const double plain = WeightedError(row, ThroughFormat({format}, row, {}), importance);
    const double weighed = WeightedError(row, ThroughFormat({format}, row, importance), importance);
    EXPECT_LT(weighed, 0.97 * plain);
  }
}

TEST(WeightGrid, ZerosConstantsAndTinyNumbers) {
  for (const WeightFormat format : kWrittenBlocks) {
    SCOPED_TRACE(Name(format));
    for (const float value : {0.0F, 0.5F, -0.25F, 1e-30F}) {
      const std::vector<float> row(512, value);
      for (const float got : ThroughFormat({format}, row, {})) {
        EXPECT_NEAR(got, value, 0.01 * std::abs(value) + 1e-7);
      }
    }
  }
}

TEST(WeightGrid, RefusesWhatItCannotHold) {
  ExpectThrows([] { WeightGrid({WeightFormat::kQ4K}, 576); }, ErrorCode::kInvalidArgument,
               "a multiple of 256 elements, not 576");
  ExpectThrows(
      [] {
        WeightGrid({WeightFormat::kInt4, 128}, 576);
      },
      ErrorCode::kInvalidArgument, "no whole groups of 128");
  ExpectThrows([] { WeightGrid({WeightFormat::kQ2K}, 256); }, ErrorCode::kUnsupported, "q2_k");
  ExpectThrows([] { WeightGrid({WeightFormat::kF16}, 256); }, ErrorCode::kUnsupported, "f16");
  for (const WeightFormat format : kWrittenBlocks) {
    std::vector<float> row(256, 1);
    row[3] = 1e30F;
    ExpectThrows([&] { ThroughFormat({format}, row, {}); }, ErrorCode::kInvalidArgument,
                 "too large for f16 scales");
    row[3] = std::numeric_limits<float>::quiet_NaN();
    ExpectThrows([&] { ThroughFormat({format}, row, {}); }, ErrorCode::kInvalidArgument,
                 "cannot hold");
  }
}

}  // namespace
}  // namespace oort
