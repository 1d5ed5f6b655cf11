// SPDX-License-Identifier: MIT
// GPTQ beside the textbook: one column at a time, with the inverse of H that is left.
#include "llm_quantize/gptq.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kit/errors.h"
#include "llm_quantize/awq.h"
#include "llm_quantize/hessian.h"

namespace oort::llm_quantize {
namespace {

using oort::testing::ExpectThrows;

#ifdef OORT_NO_LAPACK
#define OORT_NEEDS_LAPACK GTEST_SKIP() << "built without LAPACK"
#else
#define OORT_NEEDS_LAPACK
#endif

constexpr int64_t kSize = 64;

/// Inputs whose columns go together: each is much of the one before.
Tensor CorrelatedInputs(int64_t rows, int64_t columns, unsigned seed) {
  std::mt19937 random(seed);
  Tensor inputs(DType::kF32, {rows, columns});
  float* x = inputs.data<float>();
  for (int64_t row = 0; row < rows; ++row) {
    double before = 0;
    for (int64_t k = 0; k < columns; ++k) {
      const double fresh = static_cast<double>(random()) / 4294967296.0 - 0.5;
      before = 0.9 * before + fresh * (k % 5 == 0 ? 4 : 1);
      *x++ = static_cast<float>(before);
    }
  }
  return inputs;
}

StoredMatrix RandomMatrix(int64_t rows, int64_t columns, unsigned seed) {
  std::mt19937 random(seed);
  StoredMatrix matrix = AllocateStored({WeightFormat::kF32, 1, DType::kF32}, rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    matrix.data.data<float>()[i] =
        static_cast<float>(static_cast<double>(random()) / 4294967296.0 - 0.5);
  }
  return matrix;
}

std::vector<float> ValuesOf(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  ReadRows(matrix, 0, matrix.rows, values.data());
  return values;
}

/// Sum over the rows of d H dᵀ, term by term.
double PlainForm(const std::vector<float>& d, const std::vector<double>& hessian, int64_t size) {
  double sum = 0;
  const auto rows = static_cast<int64_t>(d.size()) / size;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) {
        sum += static_cast<double>(d[static_cast<size_t>(row * size + i)]) *
               hessian[static_cast<size_t>(i * size + j)] *
               static_cast<double>(d[static_cast<size_t>(row * size + j)]);
      }
    }
  }
  return sum;
}

double LossOf(const StoredMatrix& made, const StoredMatrix& from,
              const std::vector<double>& hessian) {
  std::vector<float> d = ValuesOf(made);
  const std::vector<float> w = ValuesOf(from);
  for (size_t i = 0; i < d.size(); ++i) d[i] -= w[i];
  return PlainForm(d, hessian, from.columns);
}

/// The inverse by Gauss and Jordan.
std::vector<double> PlainInverse(std::vector<double> a, size_t n) {
  std::vector<double> inverse(n * n, 0);
  for (size_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  for (size_t k = 0; k < n; ++k) {
    const double pivot = a[k * n + k];
    for (size_t j = 0; j < n; ++j) {
      a[k * n + j] /= pivot;
      inverse[k * n + j] /= pivot;
    }
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i * n + k];
      for (size_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
  return inverse;
}

TEST(Hessian, IsTheMeanOfOuterProducts) {
  OORT_NEEDS_LAPACK;
  for (const int64_t columns : {1, 5, 96, 130}) {
    const Tensor x = CorrelatedInputs(300, columns, 1);
    const std::vector<double> hessian = HessianOf(x, 2);
    EXPECT_EQ(hessian, HessianOf(x, 1));
    const std::vector<float> squares = MeanSquares(x);
    for (int64_t i = 0; i < columns; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t row = 0; row < 300; ++row) {
          sum += static_cast<double>(x.data<float>()[row * columns + i]) *
                 static_cast<double>(x.data<float>()[row * columns + j]);
        }
        EXPECT_NEAR(hessian[static_cast<size_t>(i * columns + j)], sum / 300, 1e-4);
      }
      EXPECT_NEAR(squares[static_cast<size_t>(i)], hessian[static_cast<size_t>(i * columns + i)],
                  1e-4);
    }
  }
}

TEST(Hessian, InverseFactorIsUpperAndMultipliesToTheInverse) {
  OORT_NEEDS_LAPACK;
  for (const int64_t size : {1, 3, 64, 130}) {
    std::vector<double> hessian = HessianOf(CorrelatedInputs(400, size, 2), 2);
    const std::vector<float> upper = InverseFactor(hessian, size, 0.01, 2);
    const auto n = static_cast<size_t>(size);
    double trace = 0;
    for (size_t i = 0; i < n; ++i) trace += hessian[i * n + i];
    for (size_t i = 0; i < n; ++i) hessian[i * n + i] += 0.01 * trace / static_cast<double>(n);
    const std::vector<double> inverse = PlainInverse(hessian, n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (j < i) {
          EXPECT_EQ(upper[i * n + j], 0);
        }
        double sum = 0;
        for (size_t k = 0; k < n; ++k) {
          sum += static_cast<double>(upper[k * n + i]) * static_cast<double>(upper[k * n + j]);
        }
        EXPECT_NEAR(sum, inverse[i * n + j],
                    1e-4 * std::sqrt(inverse[i * n + i] * inverse[j * n + j]));
      }
    }
  }
}

/// A text that never reached some columns, or that has fewer tokens than there are columns.
TEST(Hessian, FactorsOfWhatIsNotPositive) {
  OORT_NEEDS_LAPACK;
  std::vector<double> zeros(16, 0);
  for (const float value : InverseFactor(zeros, 4, 0.01, 1)) EXPECT_TRUE(std::isfinite(value));
  const std::vector<double> thin = HessianOf(CorrelatedInputs(3, kSize, 3), 1);
  for (const float value : InverseFactor(thin, kSize, 1e-6, 1)) EXPECT_TRUE(std::isfinite(value));
  Tensor wrong = CorrelatedInputs(4, 4, 4);
  wrong.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  ExpectThrows([&] { MeanSquares(wrong); }, ErrorCode::kInvalidArgument, "not finite");
  ExpectThrows([&] { InverseFactor(HessianOf(wrong, 1), 4, 0.01, 1); }, ErrorCode::kInvalidArgument,
               "not finite");
}

/// As the method is told: round a column, spread its error by the inverse of what is left of H,
/// strike the column out.
std::vector<int8_t> TextbookCodes(std::vector<double> w, const std::vector<double>& damped,
                                  const std::vector<int64_t>& order, const RowGrid& fit,
                                  const WeightGrid& grid) {
  std::vector<int8_t> codes(w.size());
  std::vector<int64_t> left = order;
  while (!left.empty()) {
    const size_t n = left.size();
    std::vector<double> part(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        part[i * n + j] =
            damped[static_cast<size_t>(left[i]) * w.size() + static_cast<size_t>(left[j])];
      }
    }
    const std::vector<double> inverse = PlainInverse(part, n);
    const auto column = static_cast<size_t>(left[0]);
    const GroupFit& group = fit.groups[column / static_cast<size_t>(grid.group())];
    const int code = NearestCode(static_cast<float>(w[column]), group, grid.codes());
    codes[column] = static_cast<int8_t>(code);
    const double error =
        (w[column] - static_cast<double>(group.scale * static_cast<float>(code))) / inverse[0];
    for (size_t j = 1; j < n; ++j) w[static_cast<size_t>(left[j])] -= error * inverse[j];
    left.erase(left.begin());
  }
  return codes;
}

TEST(Gptq, RoundsLikeTheTextbook) {
  OORT_NEEDS_LAPACK;
  const std::vector<double> hessian = HessianOf(CorrelatedInputs(500, kSize, 5), 1);
  const StoredMatrix from = RandomMatrix(6, kSize, 6);
  const QuantizeOptions target{WeightFormat::kInt4, 32, DType::kF16};
  const WeightGrid grid(target, kSize);
  double mean = 0;
  for (int64_t k = 0; k < kSize; ++k) mean += hessian[static_cast<size_t>(k * (kSize + 1))] / kSize;
  std::vector<double> damped = hessian;
  for (int64_t k = 0; k < kSize; ++k) damped[static_cast<size_t>(k * (kSize + 1))] += 0.01 * mean;
  for (const bool act_order : {false, true}) {
    const GptqRounder rounder(hessian, kSize, {.damping = 0.01, .act_order = act_order});
    std::vector<int64_t> order(kSize);
    std::iota(order.begin(), order.end(), 0);
    if (act_order) {
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
        return hessian[static_cast<size_t>(a * (kSize + 1))] >
               hessian[static_cast<size_t>(b * (kSize + 1))];
      });
    }
    std::vector<float> values = ValuesOf(from);
    std::vector<RowGrid> fits;
    for (size_t row = 0; row < 6; ++row) {
      fits.push_back(grid.Fit(std::span(values).subspan(row * kSize, kSize), {}));
    }
    std::vector<int8_t> codes(values.size());
    std::vector<float> left = values;
    rounder.Sweep(left, fits, grid, codes);
    size_t different = 0;
    for (size_t row = 0; row < 6; ++row) {
      const auto one = std::span(values).subspan(row * kSize, kSize);
      const std::vector<int8_t> want =
          TextbookCodes({one.begin(), one.end()}, damped, order, fits[row], grid);
      for (size_t k = 0; k < kSize; ++k) different += want[k] != codes[row * kSize + k] ? 1 : 0;
    }
    EXPECT_LE(different, 4U);  // f32 rounds now and then the other way, and the rest follows
  }
}

TEST(Gptq, WithIndependentColumnsIsTheNearestNumber) {
  OORT_NEEDS_LAPACK;
  std::vector<double> identity(kSize * kSize, 0);
  for (int64_t k = 0; k < kSize; ++k) identity[static_cast<size_t>(k * (kSize + 1))] = 1;
  const StoredMatrix from = RandomMatrix(40, kSize, 7);
  const GptqRounder rounder(identity, kSize, {});
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kUint4, WeightFormat::kQ4_0,
                                    WeightFormat::kQ5_1, WeightFormat::kUint8}) {
    const QuantizeOptions target{format, 32, DType::kF16};
    const RoundedMatrix got = rounder.Round(from, target, {});
    const RoundedMatrix nearest = RoundToNearest(from, target, {}, 1);
    EXPECT_EQ(ValuesOf(got.matrix), ValuesOf(nearest.matrix));
    EXPECT_NEAR(got.relative_error, nearest.relative_error, 1e-5 * nearest.relative_error);
  }
}

TEST(Gptq, LosesLessThanTheNearestNumbers) {
  OORT_NEEDS_LAPACK;
  const int64_t size = 256;
  const Tensor x = CorrelatedInputs(1000, size, 8);
  const std::vector<double> hessian = HessianOf(x, 2);
  const std::vector<float> importance = MeanSquares(x);
  const StoredMatrix from = RandomMatrix(48, size, 9);
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kQ4_0, WeightFormat::kQ4_1,
                                    WeightFormat::kQ5_0, WeightFormat::kQ4K, WeightFormat::kQ6K}) {
    SCOPED_TRACE(Name(format));
    const QuantizeOptions target{format, 32, DType::kF16};
    const GptqRounder rounder(hessian, size, {.threads = 2});
    const RoundedMatrix made = rounder.Round(from, target, importance);
    const double loss = LossOf(made.matrix, from, hessian);
    EXPECT_LT(loss,
              0.5 * LossOf(RoundToNearest(from, target, importance, 1).matrix, from, hessian));
    EXPECT_NEAR(made.relative_error, loss / PlainForm(ValuesOf(from), hessian, size),
                1e-3 * made.relative_error);
    // The same whatever the threads.
    const GptqRounder alone(hessian, size, {.threads = 1});
    EXPECT_EQ(ValuesOf(alone.Round(from, target, importance).matrix), ValuesOf(made.matrix));
  }
}

TEST(Gptq, RefusesWeightsThatAreNotFinite) {
  OORT_NEEDS_LAPACK;
  StoredMatrix from = RandomMatrix(3, kSize, 10);
  from.data.data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> hessian = HessianOf(CorrelatedInputs(100, kSize, 11), 1);
  const GptqRounder rounder(hessian, kSize, {});
  ExpectThrows(
      [&] {
        rounder.Round(from, {WeightFormat::kInt4, 32}, {});
      },
      ErrorCode::kInvalidArgument, "a weight is nan");
  ExpectThrows(
      [&] {
        RoundToNearest(from, {WeightFormat::kInt4, 32}, {}, 1);
      },
      ErrorCode::kInvalidArgument, "a weight is nan");
}

TEST(Awq, FactorsLowerTheWeighedError) {
  const StoredMatrix from = RandomMatrix(32, kSize, 12);
  std::vector<float> squares(kSize, 1);
  for (size_t k = 0; k < squares.size(); k += 16) squares[k] = 2500;
  const QuantizeOptions target{WeightFormat::kInt4, 32, DType::kF16};
  const std::vector<float> factors = AwqFactors({&from, 1}, target, squares, 1);
  EXPECT_GT(factors[0], 1.2F * factors[1]);
  std::vector<float> left = squares;
  for (size_t k = 0; k < left.size(); ++k) left[k] /= factors[k] * factors[k];
  const RoundedMatrix scaled = RoundToNearest(ScaleColumns(from, factors), target, left, 1);
  EXPECT_LT(scaled.relative_error, 0.95 * RoundToNearest(from, target, squares, 1).relative_error);
  // Inputs that are all alike want nothing.
  for (const float factor : AwqFactors({&from, 1}, target, std::vector<float>(kSize, 3), 1)) {
    EXPECT_EQ(factor, 1);
  }
}

}  // namespace
}  // namespace oort::llm_quantize
