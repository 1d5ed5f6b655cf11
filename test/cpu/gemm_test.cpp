// SPDX-License-Identifier: MIT
#include "cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cpu/gemm_cases.h"

namespace oort {
namespace {

using namespace gemm_cases;

void Check(const Case& c) {
  SCOPED_TRACE(c.Describe());
  const Data data(c);
  const std::vector<double> expected = Expected(c, data);
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    const GemmKernels& kernels = GemmKernelsFor(isa);
    const std::vector<float> one = Multiply(kernels, c, data, 1);
    ASSERT_EQ(one.size(), expected.size());
    const double tolerance = 2.4e-7 * static_cast<double>(8 + c.k);
    for (size_t i = 0; i < one.size(); ++i) {
      ASSERT_NEAR(one[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
    }
    for (int threads : {2, 3, 8}) {
      EXPECT_EQ(Multiply(kernels, c, data, threads), one)
          << threads << " threads give another result";
    }
  }
}

TEST(Gemm, TakesEverySmallSize) {
  for (int64_t m : {1, 2, 5, 7, 8, 9, 14, 17}) {
    for (int64_t n : {1, 3, 4, 5, 11, 12, 13, 16, 25, 33}) {
      for (int64_t k : {1, 2, 7, 16}) {
        for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
          Check({.m = m, .n = n, .k = k, .packed = packed});
        }
      }
    }
  }
}

/// Equal panels of rows, whatever is left over.
TEST(Gemm, TakesEveryNumberOfRows) {
  for (int64_t m = 2; m < 60; ++m) {
    Check({.m = m,
           .n = m % 2 == 0 ? 64 : 41,
           .k = m % 5 + 5,
           .packed = Packed::kB,
           .bias = Bias::kColumn,
           .a_transposed = m % 7 == 0,
           .activation = {m % 3 == 0 ? Activation::kRelu : Activation::kNone, 0, 0},
           .addend = m % 4 == 0});
  }
  Check({.m = 50, .n = 96, .k = 1100, .packed = Packed::kB, .bias = Bias::kColumn});
}

TEST(Gemm, CutsLongSums) {
  for (int64_t k : {255, 256, 257, 511, 512, 513, 1030, 1537}) {
    for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
      Check({.m = 9, .n = 29, .k = k, .packed = packed, .bias = Bias::kRow});
      Check({.m = 1, .n = 29, .k = k, .packed = packed, .bias = Bias::kColumn});
      Check({.m = 23, .n = 1, .k = k, .packed = packed, .bias = Bias::kRow});
    }
  }
}

/// The columns [first, first + part.n) of what `whole` multiplies by.
Data ColumnsOf(const Case& whole, const Data& data, const Case& part, int64_t first) {
  Data columns(part);
  const auto copy = [&](const Tensor& from, int64_t from_stride, Tensor& to, int64_t to_stride,
                        int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from.data<float>() + r * from_stride + first, part.n,
                  to.data<float>() + r * to_stride);
    }
  };
  copy(data.b, whole.n, columns.b, part.n, part.k);
  copy(data.addend, whole.n + 2, columns.addend, part.n + 2, part.m);
  const bool by_column = part.bias == Bias::kColumn;
  std::copy_n(data.bias.data<float>() + (by_column ? first : 0), by_column ? part.n : part.m,
              columns.bias.data<float>());
  std::copy_n(data.a.data<float>(), part.m * part.k, columns.a.data<float>());
  return columns;
}

/// Ranks that have a part of a weight each rely on it: tiles at an edge add in no other order.
void CheckParts(const Case& whole, int64_t width) {
  SCOPED_TRACE(whole.Describe() + " in parts of " + std::to_string(width));
  const Data data(whole);
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    const GemmKernels& kernels = GemmKernelsFor(isa);
    const std::vector<float> expected = Multiply(kernels, whole, data, 1);
    for (int64_t first = 0; first < whole.n; first += width) {
      Case part = whole;
      part.n = std::min(width, whole.n - first);
      const std::vector<float> result =
          Multiply(kernels, part, ColumnsOf(whole, data, part, first), 1);
      for (int64_t i = 0; i < part.m * part.n; ++i) {
        const int64_t row = i / part.n, column = first + i % part.n;
        ASSERT_EQ(result[static_cast<size_t>(i)],
                  expected[static_cast<size_t>(row * whole.n + column)])
            << "row " << row << ", column " << column;
      }
    }
  }
}

TEST(Gemm, GivesPartsOfAMatrixTheBitsOfTheWhole) {
  for (int64_t m : {3, 8, 14}) {
    for (Bias bias : {Bias::kNone, Bias::kRow, Bias::kColumn}) {
      const bool silu = bias == Bias::kColumn;
      const Case whole{.m = m,
                       .n = 96,
                       .k = 1700,  // longer than one step of any kernel
                       .packed = Packed::kB,
                       .bias = bias,
                       .activation = {silu ? Activation::kSilu : Activation::kRelu, 0, 0},
                       .addend = m % 2 == 0};
      for (int64_t width : {4, 13, 48}) CheckParts(whole, width);
    }
  }
}

TEST(Gemm, SplitsLargeProducts) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    Check({.m = 70, .n = 1200, .k = 300, .packed = packed, .bias = Bias::kColumn});
    Check({.m = 1200, .n = 70, .k = 300, .packed = packed, .bias = Bias::kRow});
    Check({.m = 130, .n = 131, .k = 1100, .packed = packed});
  }
}

TEST(Gemm, TakesTransposedMatrices) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    for (int mask = 1; mask < 4; ++mask) {
      Check({.m = 37,
             .n = 45,
             .k = 51,
             .packed = packed,
             .a_transposed = (mask & 1) != 0,
             .b_transposed = (mask & 2) != 0});
    }
  }
}

constexpr ActivationSpec kSix{Activation::kClamp, 0, 6};

TEST(Gemm, AddsBiasAndLimits) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    for (Bias bias : {Bias::kNone, Bias::kRow, Bias::kColumn}) {
      for (auto [m, n] : {std::pair<int64_t, int64_t>{19, 27}, {1, 27}, {19, 1}, {1, 1}}) {
        for (bool addend : {false, true}) {
          Check({.m = m,
                 .n = n,
                 .k = 40,
                 .packed = packed,
                 .bias = bias,
                 .activation = {Activation::kRelu},
                 .addend = addend});
          Check({.m = m,
                 .n = n,
                 .k = 700,
                 .packed = packed,
                 .bias = bias,
                 .activation = {Activation::kClamp, -3, 4},
                 .addend = addend});
        }
      }
    }
  }
}

TEST(Gemm, AppliesEveryActivation) {
  for (int kind = 0; kind <= static_cast<int>(Activation::kMish); ++kind) {
    const ActivationSpec activation{static_cast<Activation>(kind), 0.25f, 1.5f};
    for (auto [m, n] : {std::pair<int64_t, int64_t>{19, 40}, {1, 27}, {19, 1}}) {
      Check({.m = m, .n = n, .k = 30, .packed = Packed::kB, .activation = activation});
      Check({.m = m,
             .n = n,
             .k = 700,
             .packed = Packed::kA,
             .bias = Bias::kRow,
             .activation = activation,
             .addend = true});
    }
  }
}

TEST(Gemm, GivesTheBiasWhereKIsZero) {
  for (Packed packed : {Packed::kNone, Packed::kA, Packed::kB}) {
    Check({.m = 10, .n = 13, .k = 0, .packed = packed});
    Check({.m = 10, .n = 13, .k = 0, .packed = packed, .bias = Bias::kRow, .activation = kSix});
    Check({.m = 1, .n = 13, .k = 0, .packed = packed, .bias = Bias::kColumn});
    Check({.m = 0, .n = 13, .k = 5, .packed = packed});
    Check({.m = 10, .n = 0, .k = 5, .packed = packed});
  }
}

TEST(Gemm, KeepsNanThroughTheLimits) {
  for (Isa isa : SupportedIsas()) {
    const GemmKernels& kernels = GemmKernelsFor(isa);
    for (int64_t n : {1, 5, 40}) {
      const Case c{.m = 9, .n = n, .k = 8, .activation = kSix};
      Data data(c);
      data.a.data<float>()[3] = NAN;
      const std::vector<float> result = Multiply(kernels, c, data, 1);
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_TRUE(std::isnan(result[static_cast<size_t>(j)])) << Name(isa);
        EXPECT_FALSE(std::isnan(result[static_cast<size_t>(n + j)])) << Name(isa);
      }
    }
  }
}

TEST(Gemm, RunsBatches) {
  const Case c{.m = 20, .n = 30, .k = 50, .packed = Packed::kNone};
  for (Isa isa : SupportedIsas()) {
    const GemmKernels& kernels = GemmKernelsFor(isa);
    for (int64_t count : {0, 1, 3, 8}) {
      for (int threads : {1, 2, 3}) {
        const GemmSize size{c.m, c.n, c.k};
        const Data data(c);
        const std::vector<float> expected = Multiply(kernels, c, data, 1);
        Tensor workspace(DType::kF32, {GemmBatchWorkspace(kernels, size, count, threads)});
        Tensor output(DType::kF32, {count, c.m * c.n});
        GemmBatch(kernels, size, count, threads, workspace.data<float>(),
                  [&](int64_t i, int inner, float* scratch) {
                    const MatrixSource a(kernels, ViewA(c, data)), b(kernels, ViewB(c, data));
                    GemmProblem problem;
                    problem.size = size;
                    problem.a = &a;
                    problem.b = &b;
                    problem.c = output.data<float>() + i * c.m * c.n;
                    problem.ldc = c.n;
                    Gemm(kernels, problem, inner, scratch);
                  });
        for (int64_t i = 0; i < output.elements(); ++i) {
          ASSERT_EQ(output.data<float>()[i], expected[static_cast<size_t>(i % (c.m * c.n))]);
        }
      }
    }
  }
}

TEST(Gemm, RefusesSizesThatOverflow) {
  const GemmKernels& kernels = GemmKernelsFor(Isa::kScalar);
  EXPECT_THROW(PackedBytes(kernels, GemmSide::kA, INT64_MAX / 8, 100), Error);
  EXPECT_THROW(GemmWorkspace(kernels, {100, 100, INT64_MAX / 8}, 2), Error);
}

}  // namespace
}  // namespace oort
