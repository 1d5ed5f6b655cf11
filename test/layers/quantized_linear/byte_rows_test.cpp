// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/byte_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "oort/testing.h"
#include "weights/quantize_weights.h"

namespace oort {
namespace {

constexpr ByteKind kKinds[] = {ByteKind::kInt8, ByteKind::kFp8};

struct RoundedRow {
  float unit = 0;
  std::vector<uint8_t> bytes;
  double Value(ByteKind kind, size_t i) const {
    return static_cast<double>(unit) * static_cast<double>(ValueOfByte(kind, bytes[i]));
  }
};
RoundedRow Activations(ByteKind kind, const std::vector<float>& values) {
  RoundedRow row;
  row.bytes.resize(values.size());
  row.unit =
      RoundActivations(kind, values.data(), static_cast<int64_t>(values.size()), row.bytes.data());
  return row;
}
RoundedRow Weights(ByteKind kind, const std::vector<float>& values) {
  RoundedRow row;
  row.bytes.resize(values.size());
  row.unit =
      RoundWeights(kind, values.data(), static_cast<int64_t>(values.size()), row.bytes.data());
  return row;
}

/// Half a step: of a unit, or of the last of three bits.
double BoundOf(ByteKind kind, double unit, double value) {
  if (kind == ByteKind::kInt8) return unit / 2;
  return std::max(std::abs(value) / 16, unit / 1024);
}

TEST(ByteRows, NumbersAreHalfAStepFromTheirBytesAtMost) {
  for (const float range : {1e-20F, 1e-3F, 1.0F, 700.0F, 1e30F}) {
    const Tensor random = testing::RandomTensor(DType::kF32, {1000}, 7, -1, 1);
    std::vector<float> values;
    for (const float value : random.span<float>()) values.push_back(value * value * value * range);
    for (const ByteKind kind : kKinds) {
      for (const RoundedRow& row : {Activations(kind, values), Weights(kind, values)}) {
        for (size_t i = 0; i < values.size(); ++i) {
          const double bound = BoundOf(kind, row.unit, values[i]) * (1 + 1e-5);
          EXPECT_LE(std::abs(row.Value(kind, i) - values[i]), bound) << values[i];
        }
      }
    }
  }
}

TEST(ByteRows, TheLargestNumberBecomesTheLargestByte) {
  const std::vector<float> values = {0.1F, -2.5F, 0, 1.0F};
  EXPECT_EQ(static_cast<int8_t>(Activations(ByteKind::kInt8, values).bytes[1]), -127);
  EXPECT_EQ(Activations(ByteKind::kFp8, values).bytes[1], 0xfe);
  EXPECT_EQ(Activations(ByteKind::kInt8, values).bytes[2], 0);
}

TEST(ByteRows, ZerosStayZeros) {
  for (const ByteKind kind : kKinds) {
    const RoundedRow row = Activations(kind, std::vector<float>(5, 0.0F));
    EXPECT_TRUE(std::isfinite(row.unit));
    for (const uint8_t byte : row.bytes) EXPECT_EQ(byte, 0);
    EXPECT_EQ(Weights(kind, std::vector<float>(5, 0.0F)).bytes, row.bytes);
  }
}

TEST(ByteRows, TheSmallestNumbersDoNotOverflow) {
  for (const ByteKind kind : kKinds) {
    const std::vector<float> values = {1e-44F, -1e-38F, 0};
    for (const RoundedRow& row : {Activations(kind, values), Weights(kind, values)}) {
      EXPECT_TRUE(std::isfinite(row.unit));
      for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(row.Value(kind, i), 0, 1e-30);
    }
  }
}

TEST(ByteRows, WhatIsNotFiniteMakesTheUnitNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const ByteKind kind : kKinds) {
    for (const float value : {kInfinity, -kInfinity, kNan}) {
      for (const std::vector<float>& values :
           {std::vector<float>{1, value, 3}, {value, 1, 2}, {5, 4, value}}) {
        EXPECT_TRUE(std::isnan(Activations(kind, values).unit));
        EXPECT_TRUE(std::isnan(Weights(kind, values).unit));
      }
    }
  }
}

/// A checkpoint of FP8 keeps its numbers, whichever of the eight mantissas its largest one has.
TEST(ByteRows, RowsOfE4m3StayAsTheyAre) {
  for (const float scale : {1.0F, 0.0123F, 3e-5F}) {
    for (int largest = 0x38; largest < 0x7f; ++largest) {
      std::vector<float> values;
      for (int bits = 0; bits <= largest; ++bits) {
        const float value = ValueOfE4m3(static_cast<uint8_t>(bits)) * scale;
        values.push_back(bits % 2 == 0 ? value : -value);
      }
      const RoundedRow row = Weights(ByteKind::kFp8, values);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(row.Value(ByteKind::kFp8, i), values[i], std::abs(values[i]) * 2e-7)
            << "largest " << largest;
      }
    }
  }
}

TEST(ByteRows, BytesWithOneScaleStayAsTheyAre) {
  constexpr int64_t kColumns = 64;
  StoredMatrix stored = AllocateStored({WeightFormat::kInt8, 32, DType::kF32}, 2, kColumns);
  for (int64_t i = 0; i < 2 * kColumns; ++i) {
    stored.data.data<int8_t>()[i] = static_cast<int8_t>(i * 3 - 128);
  }
  // The groups of the first row have one scale, those of the second two.
  const float scales[] = {0.25F, 0.25F, 0.25F, 0.5F};
  std::memcpy(stored.scale.raw(), scales, sizeof(scales));
  std::vector<float> values;
  std::vector<uint8_t> bytes(kColumns);
  EXPECT_EQ(RoundWeights(ByteKind::kInt8, stored, 0, values, bytes.data()), 0.25F);
  EXPECT_EQ(std::memcmp(bytes.data(), stored.data.raw(), kColumns), 0);
  const float unit = RoundWeights(ByteKind::kInt8, stored, 1, values, bytes.data());
  std::vector<float> want(kColumns);
  ReadRows(stored, 1, 2, want.data());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(unit * ValueOfByte(ByteKind::kInt8, bytes[i]), want[i], unit * 0.501F);
  }
}

TEST(ByteRows, WeightsOfFourBitsDoNotBecomeBytes) {
  const auto matrix = [](WeightFormat format, int64_t columns) {
    return AllocateStored({format, 32, DType::kF16}, 1, columns);
  };
  EXPECT_TRUE(BecomesBytes(matrix(WeightFormat::kBf16, 64)));
  EXPECT_TRUE(BecomesBytes(matrix(WeightFormat::kInt8, 64)));
  EXPECT_FALSE(BecomesBytes(matrix(WeightFormat::kInt4, 64)));
  EXPECT_FALSE(BecomesBytes(matrix(WeightFormat::kUint4, 64)));
  EXPECT_TRUE(BecomesBytes(matrix(WeightFormat::kBf16, int64_t{1} << 17)));
  EXPECT_FALSE(BecomesBytes(matrix(WeightFormat::kBf16, int64_t{1} << 18)));
}

}  // namespace
}  // namespace oort
