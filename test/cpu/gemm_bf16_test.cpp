// SPDX-License-Identifier: MIT
// Products whose factors are rounded to bf16, on every kind of unit that this processor has for it
// and by the f32 kernels that stand in for such units.
#include <bit>

#include "cpu/features.h"
#include "cpu/gemm_cases.h"
#include "cpu/gemm_precision.h"
#include "oort/error.h"

namespace oort {
namespace {

using gemm_cases::Bias;
using gemm_cases::Case;
using gemm_cases::Data;
using gemm_cases::Packed;

float ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

/// A product with one column is a sum over each packed row; the column is not rounded then. So is
/// one with one row.
std::vector<double> ExpectedRounded(const Case& c, const Data& data) {
  const bool b_kept = c.packed == Packed::kB || (c.packed == Packed::kNone && c.n < c.m);
  const bool vector = (b_kept ? c.m : c.n) == 1;
  return Expected(c, data, vector && b_kept ? gemm_cases::Unchanged : ToBf16,
                  vector && !b_kept ? gemm_cases::Unchanged : ToBf16);
}

void CheckRounded(const Case& c) {
  SCOPED_TRACE(c.Describe());
  const Data data(c);
  const std::vector<double> expected = ExpectedRounded(c, data);
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    SCOPED_TRACE(std::string(variant.name) + " on " + std::string(Name(variant.isa)));
    const std::vector<float> one = Multiply(*variant.kernels, c, data, 1);
    ASSERT_EQ(one.size(), expected.size());
    const double tolerance = 2.4e-7 * static_cast<double>(8 + c.k);
    for (size_t i = 0; i < one.size(); ++i) {
      ASSERT_NEAR(one[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
    }
    for (int threads : {2, 3, 8}) {
      EXPECT_EQ(Multiply(*variant.kernels, c, data, threads), one)
          << threads << " threads give another result";
    }
  }
}

TEST(GemmBf16, IsOfferedForEveryInstructionSet) {
  for (Isa isa : SupportedIsas()) {
    const GemmKernels& kernels = GemmKernelsFor(isa, Precision::kBF16);
    EXPECT_NE(&kernels, &GemmKernelsFor(isa, Precision::kF32));
    EXPECT_NE(kernels.convert, nullptr);
    EXPECT_EQ(kernels.depth % kernels.format.k_multiple, 0);
    EXPECT_EQ(kernels.format.k_multiple % kernels.format.a_group, 0);
    EXPECT_EQ(kernels.format.k_multiple % kernels.format.b_group, 0);
  }
  size_t units = 0;
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    if (variant.name != "rounded") ++units;
  }
  const CpuFeatures& cpu = ThisCpu();
  EXPECT_EQ(units, static_cast<size_t>(cpu.arm_bf16) + static_cast<size_t>(cpu.avx512_bf16) +
                       static_cast<size_t>(cpu.amx_bf16));
}

TEST(GemmBf16, TakesEverySmallSize) {
  for (int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 14, 16, 17, 31, 33}) {
    for (int64_t n : {1, 3, 4, 5, 8, 9, 11, 12, 13, 16, 17, 25, 32, 33}) {
      for (int64_t k : {1, 2, 3, 4, 5, 16, 31, 33}) {
        for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
          CheckRounded({.m = m, .n = n, .k = k, .packed = packed});
        }
      }
    }
  }
}

TEST(GemmBf16, CutsLongSums) {
  for (int64_t k : {511, 512, 513, 1030, 1280, 1281, 2563}) {
    for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
      CheckRounded({.m = 9, .n = 29, .k = k, .packed = packed, .bias = Bias::kRow});
      CheckRounded({.m = 35, .n = 34, .k = k, .packed = packed, .bias = Bias::kColumn});
      CheckRounded({.m = 1, .n = 29, .k = k, .packed = packed, .bias = Bias::kColumn});
      CheckRounded({.m = 23, .n = 1, .k = k, .packed = packed, .bias = Bias::kRow});
    }
  }
}

TEST(GemmBf16, SplitsLargeProducts) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    CheckRounded({.m = 70, .n = 1200, .k = 300, .packed = packed, .bias = Bias::kColumn});
    CheckRounded({.m = 1200, .n = 70, .k = 300, .packed = packed, .bias = Bias::kRow});
    CheckRounded({.m = 130, .n = 131, .k = 1301, .packed = packed});
  }
}

TEST(GemmBf16, TakesTransposedMatrices) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    for (int mask = 0; mask < 4; ++mask) {
      for (int64_t k : {51, 64}) {
        CheckRounded({.m = 37,
                      .n = 45,
                      .k = k,
                      .packed = packed,
                      .a_transposed = (mask & 1) != 0,
                      .b_transposed = (mask & 2) != 0});
      }
    }
  }
}

TEST(GemmBf16, AddsBiasAndActivates) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    for (Bias bias : {Bias::kNone, Bias::kRow, Bias::kColumn}) {
      for (auto [m, n] : {std::pair<int64_t, int64_t>{19, 27}, {64, 96}, {1, 27}, {19, 1}}) {
        for (bool addend : {false, true}) {
          for (const ActivationSpec& activation :
               {ActivationSpec{Activation::kNone}, ActivationSpec{Activation::kRelu},
                ActivationSpec{Activation::kClamp, -3, 4}, ActivationSpec{Activation::kSilu}}) {
            for (int64_t k : {40, 1400}) {
              // Several tiles and a cut sum at once, where all that follows a sum has to be done.
              const bool large = m * n * k > 1'000'000;
              if (large && (bias != Bias::kRow || !addend)) continue;
              CheckRounded({.m = m,
                            .n = n,
                            .k = k,
                            .packed = packed,
                            .bias = bias,
                            .activation = activation,
                            .addend = addend});
            }
          }
        }
      }
    }
  }
}

TEST(GemmBf16, GivesTheBiasWhereKIsZero) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    CheckRounded({.m = 10, .n = 13, .k = 0, .packed = packed});
    CheckRounded({.m = 40, .n = 40, .k = 0, .packed = packed, .bias = Bias::kRow});
    CheckRounded({.m = 1, .n = 13, .k = 0, .packed = packed, .bias = Bias::kColumn});
    CheckRounded({.m = 0, .n = 13, .k = 5, .packed = packed});
    CheckRounded({.m = 10, .n = 0, .k = 5, .packed = packed});
  }
}

// Each factor loses less than 2^-9 of itself, so a sum loses less than 2^-8 of the sum of the
// products' magnitudes, and what f32 sums lose besides.
TEST(GemmBf16, StaysWithinTheErrorOfItsRounding) {
  const Case c{.m = 37, .n = 41, .k = 333, .packed = Packed::kB};
  const Data data(c);
  const std::vector<double> exact = Expected(c, data);
  const std::vector<double> size = Expected(
      c, data, [](float x) { return std::fabs(x); }, [](float x) { return std::fabs(x); });
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    SCOPED_TRACE(std::string(variant.name));
    const std::vector<float> got = Multiply(*variant.kernels, c, data, 1);
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_LE(std::fabs(got[i] - exact[i]), size[i] * (0x1p-8 + 1e-4)) << "element " << i;
      largest = std::max(largest, std::fabs(got[i] - exact[i]) / size[i]);
    }
    EXPECT_GT(largest, 1e-6) << "nothing was rounded";
  }
}

TEST(GemmBf16, KeepsInfinitiesAndNan) {
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    SCOPED_TRACE(std::string(variant.name));
    for (const float special :
         {std::bit_cast<float>(0x7fffffffu), std::bit_cast<float>(0xffc00000u),
          std::bit_cast<float>(0x7f800001u), INFINITY, -INFINITY, 3.4e38f}) {
      const Case c{.m = 40, .n = 40, .k = 37, .packed = Packed::kB};
      Data data(c);
      std::fill_n(data.b.data<float>(), c.k * c.n, 1.0f);
      data.a.data<float>()[3] = special;
      const std::vector<float> result = Multiply(*variant.kernels, c, data, 1);
      for (int64_t j = 0; j < c.n; ++j) {
        const float first = result[static_cast<size_t>(j)];
        EXPECT_EQ(std::isnan(first), std::isnan(special));
        if (!std::isnan(special)) {
          EXPECT_EQ(first, special > 0 ? INFINITY : -INFINITY);
        }
        EXPECT_TRUE(std::isfinite(result[static_cast<size_t>(c.n + j)]));
      }
    }
  }
}

/// Rows that are packed in pieces which begin and end anywhere, as taps of a convolution do.
TEST(GemmBf16, PacksRowsInPieces) {
  const int64_t depth = 97;
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    const GemmKernels& kernels = *variant.kernels;
    if (kernels.pack_rows == nullptr) continue;
    for (const GemmSide side : {GemmSide::kA, GemmSide::kB}) {
      const int width = side == GemmSide::kA ? kernels.rows : kernels.columns;
      for (const int count : {1, 2, 3, width - 1, width}) {
        SCOPED_TRACE(std::string(variant.name) + " " + std::to_string(count) + " rows");
        const Tensor data = testing::RandomTensor(DType::kF32, {count, depth}, 5);
        const MatrixSource source(kernels, {data.data<float>(), 1, depth});
        const size_t size =
            static_cast<size_t>(PackedBytes(kernels, side, width, depth)) / sizeof(uint16_t);
        std::vector<uint16_t> whole(size), pieces(size);
        source.PackFor(kernels, 0, depth, 0, count, {side, width, whole.data()});
        ZeroLastSteps(kernels, depth, {side, width, pieces.data()});
        int64_t k = 0;
        for (const int64_t step : {1, 2, 3, 5, 32, 7, 33, 14}) {
          std::vector<const float*> rows;
          for (int i = 0; i < count; ++i) rows.push_back(data.data<float>() + i * depth + k);
          kernels.pack_rows(rows.data(), count, k, step, {side, width, pieces.data()});
          k += step;
        }
        ASSERT_EQ(k, depth);
        EXPECT_EQ(pieces, whole);
        // And both as the format says, by its definition.
        const int group = kernels.format.group(side);
        for (int64_t step = 0; step < kernels.format.Padded(depth); ++step) {
          for (int i = 0; i < width; ++i) {
            const float value =
                i < count && step < depth ? ToBf16(data.data<float>()[i * depth + step]) : 0.0f;
            const int64_t at = (step / group * width + i) * group + step % group;
            ASSERT_EQ(whole[static_cast<size_t>(at)], std::bit_cast<uint32_t>(value) >> 16)
                << "step " << step << " row " << i;
          }
        }
      }
    }
  }
}

/// Rows that are multiplied by a scale on their way are those that were multiplied before.
TEST(GemmBf16, ScalesRows) {
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    const GemmKernels& kernels = *variant.kernels;
    if (!kernels.scales) continue;
    for (const int64_t depth : {1, 16, 31, 32, 40, 97}) {
      const int rows = kernels.rows - 3;
      const Tensor data = testing::RandomTensor(DType::kF32, {rows, depth}, 5);
      const Tensor scale = testing::RandomTensor(DType::kF32, {depth}, 6);
      Tensor scaled(DType::kF32, {rows, depth});
      for (int64_t i = 0; i < scaled.elements(); ++i) {
        scaled.data<float>()[i] = data.data<float>()[i] * scale.data<float>()[i % depth];
      }
      const MatrixSource on_the_way(kernels, {data.data<float>(), 1, depth}, scale.data<float>());
      const MatrixSource before(kernels, {scaled.data<float>(), 1, depth});
      const size_t size =
          static_cast<size_t>(PackedBytes(kernels, GemmSide::kA, rows, depth)) / sizeof(uint16_t);
      std::vector<uint16_t> one(size), other(size);
      on_the_way.PackFor(kernels, 0, depth, 0, rows, {GemmSide::kA, kernels.rows, one.data()});
      before.PackFor(kernels, 0, depth, 0, rows, {GemmSide::kA, kernels.rows, other.data()});
      EXPECT_EQ(one, other) << variant.name << " " << depth;
    }
  }
}

TEST(GemmBf16, NamesItsPrecision) {
  EXPECT_EQ(PrecisionOf("f32"), Precision::kF32);
  EXPECT_EQ(PrecisionOf("bf16"), Precision::kBF16);
  EXPECT_EQ(Name(Precision::kBF16), "bf16");
  EXPECT_EQ(PrecisionOf("f16"), Precision::kF16);
  EXPECT_THROW(PrecisionOf("half"), Error);
}

TEST(GemmBf16, RefusesSizesThatOverflow) {
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    EXPECT_THROW(PackedBytes(*variant.kernels, GemmSide::kA, INT64_MAX / 8, 100), Error);
    EXPECT_THROW(GemmWorkspace(*variant.kernels, {100, 100, INT64_MAX - 1}, 2), Error);
  }
}

}  // namespace
}  // namespace oort
