// SPDX-License-Identifier: MIT
// Weights as they lie in files. What blocks hold is told by the package gguf: see
// make_weight_blocks.py.
#include "weights/weight_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/paths.h"
#include "oort/npy.h"
#include "weights/weight_blocks.h"

namespace oort {
namespace {

using testing::ExpectThrows;

constexpr WeightFormat kBlockFormats[] = {
    WeightFormat::kQ4_0,   WeightFormat::kQ4_1,   WeightFormat::kQ5_0,  WeightFormat::kQ5_1,
    WeightFormat::kQ8_0,   WeightFormat::kQ2K,    WeightFormat::kQ3K,   WeightFormat::kQ4K,
    WeightFormat::kQ5K,    WeightFormat::kQ6K,    WeightFormat::kIq4Nl, WeightFormat::kIq4Xs,
    WeightFormat::kMxfp4,  WeightFormat::kTq1_0,  WeightFormat::kTq2_0, WeightFormat::kIq1S,
    WeightFormat::kIq1M,   WeightFormat::kIq2Xxs, WeightFormat::kIq2Xs, WeightFormat::kIq2S,
    WeightFormat::kIq3Xxs, WeightFormat::kIq3S};

Tensor WeightData(WeightFormat format, const std::string& part) {
  return ReadNpy(TestData().string() + "/weights/weight_blocks/" + std::string(Name(format)) + "." +
                 part + ".npy");
}

StoredMatrix BlocksOf(WeightFormat format) {
  StoredMatrix matrix{format, 3, 512, WeightData(format, "blocks"), {}, {}};
  Check(matrix);
  return matrix;
}

/// The groups of a matrix.
struct Groups {
  explicit Groups(const StoredMatrix& matrix, int64_t begin = 0, int64_t end = -1)
      : layout(LayoutOf(matrix)) {
    if (end < 0) end = matrix.rows;
    const auto count = static_cast<size_t>((end - begin) * matrix.columns);
    q.resize(count);
    scale.resize(count / static_cast<size_t>(layout.group));
    if (layout.has_minimum) minimum.resize(scale.size());
    ReadGroups(matrix, begin, end, q.data(), scale.data(),
               layout.has_minimum ? minimum.data() : nullptr);
  }
  GroupLayout layout;
  std::vector<int8_t> q;
  std::vector<float> scale, minimum;
};

TEST(WeightFormat, HasAName) {
  for (const WeightFormat format : kBlockFormats) {
    EXPECT_EQ(WeightFormatNamed(Name(format)), format);
  }
  EXPECT_EQ(Name(WeightFormat::kF32), "f32");
  EXPECT_EQ(Name(WeightFormat::kUint4), "uint4");
  EXPECT_EQ(Name(WeightFormat::kQ4_0), "q4_0");
  EXPECT_EQ(Name(WeightFormat::kQ2K), "q2_k");
  EXPECT_EQ(Name(WeightFormat::kMxfp4), "mxfp4");
  EXPECT_EQ(WeightFormatNamed("int4"), WeightFormat::kInt4);
  EXPECT_EQ(WeightFormatNamed("q4"), std::nullopt);
}

TEST(WeightFormat, ReadsBlocksBitForBit) {
  for (const WeightFormat format : kBlockFormats) {
    SCOPED_TRACE(Name(format));
    const StoredMatrix matrix = BlocksOf(format);
    const Tensor want = WeightData(format, "values");
    Tensor got(DType::kF32, {3, 512});
    ReadRows(matrix, 0, 3, got.data<float>());
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), got.bytes()), 0);
    // Any rows alone.
    ReadRows(matrix, 1, 2, got.data<float>());
    EXPECT_EQ(std::memcmp(got.raw(), want.Rows(1, 2).raw(), 512 * sizeof(float)), 0);
  }
}

TEST(WeightFormat, GroupsKeepWhatTheyPromise) {
  for (const WeightFormat format : kBlockFormats) {
    SCOPED_TRACE(Name(format));
    const StoredMatrix matrix = BlocksOf(format);
    const Groups groups(matrix);
    const Tensor want = WeightData(format, "values");
    const auto group = static_cast<size_t>(groups.layout.group);
    for (size_t i = 0; i < groups.q.size(); ++i) {
      const float m = groups.layout.has_minimum ? groups.minimum[i / group] : 0.0F;
      EXPECT_EQ(groups.scale[i / group] * static_cast<float>(groups.q[i]) + m,
                want.data<float>()[i]);
      if (groups.layout.bits != 4) continue;
      EXPECT_GE(groups.q[i], groups.layout.is_signed ? -8 : 0);
      EXPECT_LE(groups.q[i], groups.layout.is_signed ? 7 : 15);
    }
    if (!groups.layout.f16_scales) continue;
    for (const auto* numbers : {&groups.scale, &groups.minimum}) {
      for (const float x : *numbers) EXPECT_EQ(static_cast<float>(Half(x)), x);
    }
  }
}

TEST(WeightFormat, RowsOfGroupsAreTheSameAlone) {
  for (const WeightFormat format : kBlockFormats) {
    const StoredMatrix matrix = BlocksOf(format);
    const Groups all(matrix), one(matrix, 2, 3);
    EXPECT_TRUE(std::equal(one.q.begin(), one.q.end(), all.q.end() - 512));
    EXPECT_TRUE(std::equal(one.scale.begin(), one.scale.end(),
                           all.scale.end() - static_cast<std::ptrdiff_t>(one.scale.size())));
  }
}

TEST(WeightFormat, BlocksMayLieAnywhere) {
  for (const WeightFormat format : kBlockFormats) {
    StoredMatrix matrix = BlocksOf(format);
    const Groups want(matrix);
    const auto buffer = AllocateHost(matrix.data.bytes() + 1);
    std::memcpy(buffer->data() + 1, matrix.data.raw(), matrix.data.bytes());
    matrix.data = Tensor(DType::kU8, matrix.data.shape(), buffer, 1);
    const Groups got(matrix);
    EXPECT_EQ(got.q, want.q);
    EXPECT_EQ(got.scale, want.scale);
  }
}

TEST(WeightFormat, HalvesBecomeFloats) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float got = HalfBitsToFloat(half), want = HalfToFloat(half);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << bits;
    }
  }
}

TEST(WeightFormat, PlainFloatsAreCopied) {
  StoredMatrix matrix{WeightFormat::kF32, 2, 2, Tensor::From<float>({1, -2, 0.1F, 4}, {2, 2})};
  for (const auto& [format, dtype] :
       {std::pair{WeightFormat::kF32, DType::kF32}, std::pair{WeightFormat::kF16, DType::kF16},
        std::pair{WeightFormat::kBf16, DType::kBF16}}) {
    matrix.format = format;
    matrix.data = matrix.data.To(dtype);
    Check(matrix);
    EXPECT_EQ(LayoutOf(matrix).bits, 0);
    float row[2];
    ReadRows(matrix, 1, 2, row);
    EXPECT_EQ(row[0], matrix.data.To(DType::kF32).data<float>()[2]);
    EXPECT_EQ(row[1], 4);
    int8_t q[2];
    ExpectThrows([&] { ReadGroups(matrix, 0, 1, q, row, row); }, ErrorCode::kInvalidArgument,
                 "are not in groups");
    ExpectThrows([&] { ReadSteps(matrix, 0, 1, row, row); }, ErrorCode::kInvalidArgument,
                 "do not count steps");
    matrix.data = Tensor::From<float>({1, -2, 0.1F, 4}, {2, 2});
  }
}

TEST(WeightFormat, OwnFormatsAreArrays) {
  const Tensor scale = Tensor::From<float>({0.5F, 2, -1, 0.25F}, {2, 2});
  const Tensor minimum = Tensor::From<float>({-1, 0, 10, 0.125F}, {2, 2});
  const Tensor bytes = Tensor::From<uint8_t>({0, 255, 128, 7, 1, 2, 3, 200}, {2, 4});
  const Tensor halves = Tensor::From<uint8_t>({0xf0, 0x37, 0x8a, 0x01}, {2, 2});
  struct Case {
    StoredMatrix matrix;
    std::vector<float> want;
  };
  const Tensor numbers(DType::kI8, {2, 4}, bytes.buffer());
  for (const Case& c : {
           Case{{WeightFormat::kInt8, 2, 4, numbers, scale, {}},
                {0, -0.5F, -256, 14, -1, -2, 0.75F, -14}},
           Case{{WeightFormat::kUint8, 2, 4, bytes, scale, minimum},
                {-1, 126.5F, 256, 14, 9, 8, 0.875F, 50.125F}},
           Case{{WeightFormat::kInt4, 2, 4, halves, scale, {}},
                {-4, 3.5F, -2, -10, -2, 0, -1.75F, -2}},
           Case{{WeightFormat::kUint4, 2, 4, halves, scale, minimum},
                {-1, 6.5F, 14, 6, 0, 2, 0.375F, 0.125F}},
       }) {
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      StoredMatrix matrix = c.matrix;
      SCOPED_TRACE(Name(matrix.format));
      matrix.scale = matrix.scale.To(dtype);
      if (matrix.minimum.defined()) matrix.minimum = matrix.minimum.To(dtype);
      Check(matrix);
      std::vector<float> got(8);
      ReadRows(matrix, 0, 2, got.data());
      EXPECT_EQ(got, c.want);
      ReadRows(matrix, 1, 2, got.data());
      EXPECT_EQ(got[3], c.want[7]);
      const Groups groups(matrix);
      EXPECT_EQ(groups.layout.group, 2);
      EXPECT_EQ(groups.layout.f16_scales,
                dtype == DType::kF16 && matrix.format != WeightFormat::kUint8);
      for (size_t i = 0; i < 8; ++i) {
        const float m = groups.layout.has_minimum ? groups.minimum[i / 2] : 0.0F;
        EXPECT_EQ(groups.scale[i / 2] * static_cast<float>(groups.q[i]) + m, c.want[i]);
      }
    }
  }
}

TEST(WeightFormat, AnOddGroupOfFourBits) {
  const StoredMatrix matrix{WeightFormat::kUint4,
                            1,
                            6,
                            Tensor::From<uint8_t>({0x21, 0x43, 0x65}, {1, 3}),
                            Tensor::From<float>({1, 10}, {1, 2}),
                            Tensor::From<float>({0, 0}, {1, 2})};
  Check(matrix);
  std::vector<float> got(6);
  ReadRows(matrix, 0, 1, got.data());
  EXPECT_EQ(got, (std::vector<float>{1, 2, 3, 40, 50, 60}));
}

TEST(WeightFormat, RowsAreWholeBlocks) {
  EXPECT_EQ(RowBytes(WeightFormat::kF32, 3), 12);
  EXPECT_EQ(RowBytes(WeightFormat::kInt4, 6), 3);
  EXPECT_EQ(RowBytes(WeightFormat::kQ4_1, 64), 40);
  EXPECT_EQ(RowBytes(WeightFormat::kQ6K, 512), 420);
  EXPECT_EQ(RowBytes(WeightFormat::kQ6K, 0), 0);
  ExpectThrows([] { RowBytes(WeightFormat::kQ4_1, 48); }, ErrorCode::kInvalidArgument,
               "a multiple of 32 elements, not 48");
  ExpectThrows([] { RowBytes(WeightFormat::kInt4, 7); }, ErrorCode::kInvalidArgument,
               "a multiple of 2 elements, not 7");
  ExpectThrows([] { RowBytes(WeightFormat::kF32, -1); }, ErrorCode::kInvalidArgument, "not -1");
  ExpectThrows([] { RowBytes(WeightFormat::kF32, std::numeric_limits<int64_t>::max()); },
               ErrorCode::kInvalidArgument, "overflows");
}

TEST(WeightFormat, PartsMustAgree) {
  const auto expect = [](const StoredMatrix& matrix, std::string_view message) {
    ExpectThrows([&] { Check(matrix); }, ErrorCode::kInvalidArgument, message);
  };
  const Tensor scale = Tensor::Zeros(DType::kF32, {2, 2});
  const Tensor bytes = Tensor::Zeros(DType::kU8, {2, 4});
  expect({WeightFormat::kF32, 2, 4, bytes}, "needs data of (2,4)f32, but got (2,4)u8");
  expect({WeightFormat::kQ4_0, 2, 64, bytes}, "needs data of (2,36)u8");
  expect({WeightFormat::kQ4_0, 2, 64, {}}, "but got none");
  expect({WeightFormat::kQ4_0, 2, 64, Tensor::Zeros(DType::kU8, {2, 36}), scale},
         "q4_0 have no scales");
  expect({WeightFormat::kUint8, 2, 4, bytes}, "but got none");
  expect({WeightFormat::kUint8, 2, 4, bytes, scale}, "needs minimums of (2,2)f32");
  expect({WeightFormat::kUint8, 2, 4, bytes, scale, scale.To(DType::kF16)},
         "needs minimums of (2,2)f32");
  expect({WeightFormat::kInt4, 2, 8, bytes, scale, scale}, "int4 have no minimums");
  expect({WeightFormat::kUint8, 2, 4, bytes, Tensor::Zeros(DType::kF32, {2, 3})},
         "groups of the same size");
  expect({WeightFormat::kUint8, 2, 4, bytes, Tensor::Zeros(DType::kF64, {2, 2})}, "f16 or f32");
  expect({WeightFormat::kUint8, 2, 4, bytes, Tensor::Zeros(DType::kF32, {3, 2})},
         "needs scales of (2,2)f32");
  expect({WeightFormat::kF32, 2, 0, Tensor::Zeros(DType::kF32, {2, 0})}, "at least one column");
  expect({WeightFormat::kF32, -2, 1, {}}, "at least one column");
  StoredMatrix whole{WeightFormat::kUint8, 2, 4, bytes, scale, scale};
  Check(whole);
  float row[4];
  for (const auto& rows : {std::pair{-1, 1}, std::pair{1, 0}, std::pair{1, 3}}) {
    ExpectThrows([&] { ReadRows(whole, rows.first, rows.second, row); },
                 ErrorCode::kInvalidArgument, "of a matrix with 2");
  }
  ReadRows(whole, 2, 2, nullptr);
}

}  // namespace
}  // namespace oort
