// SPDX-License-Identifier: MIT
#include "weights/quantize_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/paths.h"
#include "oort/npy.h"

namespace oort {
namespace {

using testing::ExpectThrows;

constexpr WeightFormat kGroupFormats[] = {WeightFormat::kInt8, WeightFormat::kUint8,
                                          WeightFormat::kInt4, WeightFormat::kUint4};

/// Numbers like those of weights: many small ones, a few large ones, not centred.
std::vector<float> WeightLike(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  uint64_t state = seed;
  for (float& value : values) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 40) / (1 << 24) - 0.5;
    }
    value = static_cast<float>(0.05 * sum * std::abs(sum) + 0.002);
  }
  return values;
}

std::vector<float> AllRows(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  ReadRows(matrix, 0, matrix.rows, values.data());
  return values;
}

double SquaredError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i] - b[i]), 2);
  return sum;
}

TEST(QuantizeWeights, StaysWithinHalfAStep) {
  constexpr int64_t kRows = 3, kColumns = 256;
  const std::vector<float> values = WeightLike(kRows * kColumns, 1);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kUint8}) {
    for (const int64_t group : {32, 64, 128, 256}) {
      for (const DType scales : {DType::kF16, DType::kF32}) {
        StoredMatrix matrix = AllocateStored({format, group, scales}, kRows, kColumns);
        QuantizeRows(values.data(), 0, kRows, matrix);
        const std::vector<float> got = AllRows(matrix);
        for (size_t i = 0; i < values.size(); ++i) {
          const auto g = static_cast<int64_t>(i) / group;
          const float step = std::abs(matrix.scale.To(DType::kF32).data<float>()[g]);
          // f16 scales move the ends of a group by 2^-11 of 127 or 255 steps.
          EXPECT_NEAR(got[i], values[i], (scales == DType::kF16 ? 0.65F : 0.501F) * step);
        }
      }
    }
  }
}

/// The plain way: the largest number decides.
double PlainInt4Error(const std::vector<float>& values, size_t group) {
  double error = 0;
  for (size_t at = 0; at < values.size(); at += group) {
    float most = 0;
    for (size_t i = 0; i < group; ++i) most = std::max(most, std::abs(values[at + i]));
    const float scale = most / 7;
    for (size_t i = 0; i < group; ++i) {
      const float q = std::nearbyint(values[at + i] / scale);
      error += std::pow(static_cast<double>(values[at + i] - q * scale), 2);
    }
  }
  return error;
}

TEST(QuantizeWeights, FourBitsAreSearchedFor) {
  constexpr int64_t kRows = 8, kColumns = 256;
  const std::vector<float> values = WeightLike(kRows * kColumns, 2);
  for (const int64_t group : {32, 64, 128}) {
    const double plain = PlainInt4Error(values, static_cast<size_t>(group));
    double errors[2];
    for (const bool both : {false, true}) {
      const WeightFormat format = both ? WeightFormat::kUint4 : WeightFormat::kInt4;
      StoredMatrix matrix = AllocateStored({format, group}, kRows, kColumns);
      QuantizeRows(values.data(), 0, kRows, matrix);
      errors[both] = SquaredError(AllRows(matrix), values);
    }
    EXPECT_LT(errors[0], 0.85 * plain) << group;
    EXPECT_LT(errors[1], errors[0]) << group;
  }
}

TEST(QuantizeWeights, WhatFitsIsExact) {
  std::vector<float> values(64);
  for (int i = 0; i < 64; ++i) {
    values[static_cast<size_t>(i)] = 0.25F * static_cast<float>(i * 7 % 16 - 8);
  }
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kUint4}) {
    StoredMatrix matrix = AllocateStored({format, 32}, 2, 32);
    QuantizeRows(values.data(), 0, 2, matrix);
    EXPECT_EQ(AllRows(matrix), values);
  }
}

TEST(QuantizeWeights, GroupsOfOneNumber) {
  for (const WeightFormat format : kGroupFormats) {
    for (const float number : {0.0F, 0.5F, -3.0F}) {
      const std::vector<float> values(64, number);
      StoredMatrix matrix = AllocateStored({format, 64}, 1, 64);
      QuantizeRows(values.data(), 0, 1, matrix);
      for (const float x : AllRows(matrix)) EXPECT_NEAR(x, number, 1e-3 * std::abs(number));
    }
  }
}

TEST(QuantizeWeights, RowsDoNotDependOnOthers) {
  const std::vector<float> values = WeightLike(4 * 64, 3);
  for (const WeightFormat format : kGroupFormats) {
    StoredMatrix all = AllocateStored({format, 32}, 4, 64), one = all;
    one = AllocateStored({format, 32}, 4, 64);
    QuantizeRows(values.data(), 0, 4, all);
    for (const int64_t row : {3, 0, 2, 1})
      QuantizeRows(&values[64 * static_cast<size_t>(row)], row, row + 1, one);
    EXPECT_EQ(AllRows(all), AllRows(one));
  }
}

TEST(QuantizeWeights, PlainFormatsRound) {
  const std::vector<float> values = {1.0F, 0.1F, -65504.0F, 3e-5F};
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBf16}) {
    StoredMatrix matrix = AllocateStored({format}, 2, 2);
    QuantizeRows(values.data(), 0, 2, matrix);
    const std::vector<float> got = AllRows(matrix);
    for (size_t i = 0; i < 4; ++i) {
      const float want = format == WeightFormat::kF32   ? values[i]
                         : format == WeightFormat::kF16 ? static_cast<float>(Half(values[i]))
                                                        : static_cast<float>(BFloat16(values[i]));
      EXPECT_EQ(got[i], want);
    }
  }
}

TEST(QuantizeWeights, RefusesWhatItCannotHold) {
  const auto expect = [](WeightFormat format, float number, std::string_view message,
                         DType scales = DType::kF16) {
    std::vector<float> values(32, 1);
    values[7] = number;
    StoredMatrix matrix = AllocateStored({format, 32, scales}, 1, 32);
    ExpectThrows([&] { QuantizeRows(values.data(), 0, 1, matrix); }, ErrorCode::kInvalidArgument,
                 message);
  };
  for (const WeightFormat format : kGroupFormats) {
    expect(format, std::numeric_limits<float>::quiet_NaN(), "cannot hold");
    expect(format, std::numeric_limits<float>::infinity(), "cannot hold");
  }
  expect(WeightFormat::kF16, 65520, "cannot hold");
  expect(WeightFormat::kInt8, 1e30F, "too large for f16 scales");
  ExpectThrows(
      [] {
        AllocateStored({WeightFormat::kInt4, 32}, 1, 48);
      },
      ErrorCode::kInvalidArgument, "no whole groups of 32");
  ExpectThrows(
      [] {
        AllocateStored({WeightFormat::kInt4, 0}, 1, 48);
      },
      ErrorCode::kInvalidArgument, "no whole groups of 0");
  ExpectThrows(
      [] {
        AllocateStored({WeightFormat::kQ2K, 16}, 1, 256);
      },
      ErrorCode::kUnsupported, "cannot be written as q2_k");
}

StoredMatrix BlocksFor(WeightFormat format) {
  return {format, 3, 512,
          ReadNpy(TestData().string() + "/weights/weight_blocks/" + std::string(Name(format)) +
                  ".blocks.npy")};
}

TEST(QuantizeWeights, BlocksAreCopiedWithoutLoss) {
  struct Case {
    WeightFormat from, asked, got;
    DType scales;
    int64_t group = 32;
  };
  for (const Case& c :
       {Case{WeightFormat::kQ4_0, WeightFormat::kInt4, WeightFormat::kInt4, DType::kF16},
        Case{WeightFormat::kQ4_0, WeightFormat::kInt8, WeightFormat::kInt8, DType::kF16, 16},
        Case{WeightFormat::kQ4_1, WeightFormat::kInt4, WeightFormat::kUint4, DType::kF16},
        Case{WeightFormat::kQ8_0, WeightFormat::kInt8, WeightFormat::kInt8, DType::kF16},
        Case{WeightFormat::kQ5_1, WeightFormat::kInt8, WeightFormat::kUint8, DType::kF16},
        Case{WeightFormat::kQ4K, WeightFormat::kInt4, WeightFormat::kUint4, DType::kF32},
        Case{WeightFormat::kQ3K, WeightFormat::kInt4, WeightFormat::kInt4, DType::kF32, 16},
        Case{WeightFormat::kQ6K, WeightFormat::kInt8, WeightFormat::kInt8, DType::kF32, 16}}) {
    SCOPED_TRACE(Name(c.from));
    const StoredMatrix from = BlocksFor(c.from);
    const auto exact = LosslessOptions(from, {c.asked, c.group});
    ASSERT_TRUE(exact.has_value());
    EXPECT_EQ(exact->format, c.got);
    EXPECT_EQ(exact->scales, c.scales);
    StoredMatrix to = AllocateStored(*exact, from.rows, from.columns);
    CopyGroups(from, 0, 2, to);
    CopyGroups(from, 2, 3, to);
    EXPECT_EQ(AllRows(to), AllRows(from));
  }
}

TEST(QuantizeWeights, KnowsWhereSomethingWouldBeLost) {
  const auto lossless = [](WeightFormat from, WeightFormat to, int64_t group) {
    return LosslessOptions(BlocksFor(from), {to, group}).has_value();
  };
  EXPECT_FALSE(lossless(WeightFormat::kQ8_0, WeightFormat::kInt4, 32));
  EXPECT_FALSE(lossless(WeightFormat::kQ4_0, WeightFormat::kInt4, 64));
  EXPECT_FALSE(lossless(WeightFormat::kQ6K, WeightFormat::kInt8, 32));
  EXPECT_FALSE(lossless(WeightFormat::kQ4_0, WeightFormat::kF16, 32));
  const StoredMatrix plain{WeightFormat::kF32, 1, 32, Tensor::Zeros(DType::kF32, {1, 32})};
  EXPECT_FALSE(LosslessOptions(plain, {WeightFormat::kInt8, 32}).has_value());
}

}  // namespace
}  // namespace oort
