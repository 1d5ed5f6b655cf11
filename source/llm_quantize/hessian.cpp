// SPDX-License-Identifier: MIT
#include "llm_quantize/hessian.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "cpu/lapack.h"

namespace oort::llm_quantize {
namespace {

constexpr int64_t kRowsAtOnce = 256;  // whose sum is f32
constexpr int64_t kBlock = 96;        // columns of a piece of work

lapack::Int AsInt(int64_t value) {
  if (value <= std::numeric_limits<lapack::Int>::max()) return static_cast<lapack::Int>(value);
  throw Error(ErrorCode::kLimit, "a matrix is too large for LAPACK");
}

size_t At(int64_t row, int64_t column, int64_t size) {
  return static_cast<size_t>(row * size + column);
}

/// L of A = L Lᵀ, by columns; whether there is one.
bool Factorize(std::vector<double>& matrix, int64_t size) {
  const lapack::Int n = AsInt(size);
  lapack::Int info = 0;
  lapack::Get<double>().potrf("L", &n, matrix.data(), &n, &info, 1);
  return info == 0;
}

/// L⁻¹ of a lower triangle, both by columns.
std::vector<double> InvertLower(const std::vector<double>& lower, int64_t size, int threads) {
  std::vector<double> inverse(lower.size(), 0);
  const int64_t pieces = (size + kBlock - 1) / kBlock;
  const lapack::Int n = AsInt(size);
  const auto trsm = lapack::Get<double>().trsm;
  ParallelFor(threads, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      // Above its diagonal the inverse is 0: these columns need the corner below alone.
      const int64_t begin = piece * kBlock, end = std::min(size, begin + kBlock);
      double* out = inverse.data() + begin * size + begin;
      for (int64_t i = 0; i < end - begin; ++i) out[i * size + i] = 1;
      const lapack::Int rows = AsInt(size - begin), columns = AsInt(end - begin);
      const double one = 1;
      trsm("L", "L", "N", "N", &rows, &columns, &one, lower.data() + begin * size + begin, &n, out,
           &n, 1, 1, 1, 1);
    }
  });
  return inverse;
}

/// The same numbers with rows and columns in reverse order.
std::vector<double> Reversed(const std::vector<double>& matrix) {
  return {matrix.rbegin(), matrix.rend()};
}

}  // namespace

std::vector<float> MeanSquares(const Tensor& inputs) {
  const int64_t rows = inputs.dim(0), columns = inputs.dim(1);
  std::vector<double> sums(static_cast<size_t>(columns), 0);
  const float* x = inputs.data<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < sums.size(); ++k) {
      const auto value = static_cast<double>(x[static_cast<size_t>(row * columns) + k]);
      sums[k] += value * value;
    }
  }
  std::vector<float> means(sums.size());
  for (size_t k = 0; k < sums.size(); ++k) {
    means[k] = static_cast<float>(sums[k] / static_cast<double>(rows));
    if (std::isfinite(means[k])) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "the text makes numbers in the model that are not finite");
  }
  return means;
}

std::vector<double> HessianOf(const Tensor& inputs, int threads) {
  const int64_t rows = inputs.dim(0), size = inputs.dim(1);
  const auto gemm = lapack::Get<float>().gemm;
  std::vector<double> hessian(static_cast<size_t>(size * size), 0);
  const int64_t pieces = (size + kBlock - 1) / kBlock;
  const lapack::Int n = AsInt(size);
  const float* x = inputs.data<float>();
  ParallelFor(threads, pieces, 1, [&](int64_t first, int64_t last) {
    std::vector<float> part(static_cast<size_t>(size * kBlock));
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kBlock, end = std::min(size, begin + kBlock);
      const lapack::Int height = AsInt(end), width = AsInt(end - begin);
      for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
        const lapack::Int depth = AsInt(std::min(kRowsAtOnce, rows - row));
        const float one = 1, zero = 0;
        const float* from = x + row * size;  // by columns: the transpose
        gemm("N", "T", &height, &width, &depth, &one, from, &n, from + begin, &n, &zero,
             part.data(), &height, 1, 1);
        for (int64_t j = begin; j < end; ++j) {
          double* to = hessian.data() + j * size;
          const float* sum = part.data() + (j - begin) * end;
          for (int64_t i = 0; i <= j; ++i) to[i] += static_cast<double>(sum[i]);
        }
      }
    }
  });
  const double share = 1 / static_cast<double>(std::max<int64_t>(1, rows));
  for (int64_t j = 0; j < size; ++j) {
    for (int64_t i = 0; i <= j; ++i) {
      hessian[At(j, i, size)] *= share;
      hessian[At(i, j, size)] = hessian[At(j, i, size)];
    }
  }
  return hessian;
}

std::vector<float> InverseFactor(std::vector<double> hessian, int64_t size, double damping,
                                 int threads) {
  double trace = 0;
  for (int64_t k = 0; k < size; ++k) trace += hessian[At(k, k, size)];
  const double mean = trace / static_cast<double>(size);
  for (int64_t k = 0; k < size; ++k) {
    if (hessian[At(k, k, size)] == 0) hessian[At(k, k, size)] = mean > 0 ? mean : 1;
  }
  // A factorization need not notice NaN.
  const bool is_finite = std::ranges::all_of(hessian, [](double x) { return std::isfinite(x); });
  for (double share = std::max(damping, 1e-6); is_finite && share <= 1; share *= 10) {
    // With rows in reverse order the inverse of the factor is the factor of the inverse.
    std::vector<double> damped = Reversed(hessian);
    for (int64_t k = 0; k < size; ++k) damped[At(k, k, size)] += share * mean;
    if (!Factorize(damped, size)) continue;
    const std::vector<double> inverse = InvertLower(damped, size, threads);
    // Column j of L⁻¹ is column size - 1 - j of the upper triangle, bottom up.
    std::vector<float> upper(inverse.size(), 0);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = i; j < size; ++j) {
        upper[At(i, j, size)] = static_cast<float>(inverse[At(size - 1 - j, size - 1 - i, size)]);
      }
    }
    return upper;
  }
  throw Error(ErrorCode::kInvalidArgument, "the inputs of a matrix are not finite");
}

std::vector<double> QuadraticForms(std::span<const float> rows, std::span<const float> hessian,
                                   int64_t size) {
  const auto count = static_cast<int64_t>(rows.size()) / size;
  std::vector<float> products(rows.size());
  const lapack::Int n = AsInt(size), m = AsInt(count);
  const float one = 1, zero = 0;
  lapack::Get<float>().gemm("N", "N", &n, &m, &n, &one, hessian.data(), &n, rows.data(), &n, &zero,
                            products.data(), &n, 1, 1);
  std::vector<double> forms(static_cast<size_t>(count), 0);
  for (int64_t row = 0; row < count; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < size; ++k) {
      sum += static_cast<double>(rows[At(row, k, size)]) *
             static_cast<double>(products[At(row, k, size)]);
    }
    forms[static_cast<size_t>(row)] = sum;
  }
  return forms;
}

}  // namespace oort::llm_quantize
