// SPDX-License-Identifier: MIT
// Products that the tests of every kind of kernel run, and what f64 says they are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cpu/gemm.h"
#include "oort/testing.h"

namespace oort::gemm_cases {

enum class Packed { kNone, kA, kB };
enum class Bias { kNone, kRow, kColumn };

struct Case {
  int64_t m, n, k;
  Packed packed = Packed::kA;
  Bias bias = Bias::kNone;
  bool a_transposed = false, b_transposed = false;
  ActivationSpec activation = {};
  bool addend = false;

  std::string Describe() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " packed " +
           std::to_string(static_cast<int>(packed)) + " bias " +
           std::to_string(static_cast<int>(bias)) + (a_transposed ? " at" : "") +
           (b_transposed ? " bt" : "") + " " + std::string(Name(activation.kind)) +
           (addend ? " addend" : "");
  }
};

struct Data {
  explicit Data(const Case& c)
      : a(testing::RandomTensor(DType::kF32, {c.m * c.k}, 1)),
        b(testing::RandomTensor(DType::kF32, {c.k * c.n}, 2)),
        bias(testing::RandomTensor(DType::kF32, {std::max(c.m, c.n)}, 3)),
        addend(testing::RandomTensor(DType::kF32, {c.m, c.n + 2}, 4)) {}
  Tensor a, b, bias, addend;
};

inline double Activated(const ActivationSpec& spec, double x) {
  const double a = spec.a, b = spec.b, sigmoid = 1 / (1 + std::exp(-x));
  const double hard = std::clamp(x + 3, 0.0, 6.0) / 6;
  switch (spec.kind) {
    case Activation::kNone: return x;
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kClamp: return std::min(std::max(x, a), b);
    case Activation::kSilu: return x * sigmoid;
    case Activation::kHardswish: return x * hard;
    case Activation::kHardsigmoid: return hard;
    case Activation::kSigmoid: return sigmoid;
    case Activation::kTanh: return std::tanh(x);
    case Activation::kGelu: return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kLeakyRelu: return x > 0 ? x : x * a;
    case Activation::kElu: return x > 0 ? x : a * std::expm1(x);
    case Activation::kMish: return x * std::tanh(std::log1p(std::exp(x)));
    case Activation::kRoughSilu: return x / (1 + std::exp(-x));
  }
  return NAN;
}

inline StridedMatrix ViewA(const Case& c, const Data& data) {
  return {data.a.data<float>(), c.a_transposed ? c.m : 1, c.a_transposed ? 1 : c.k};
}
inline StridedMatrix ViewB(const Case& c, const Data& data) {
  return {data.b.data<float>(), c.b_transposed ? 1 : c.n, c.b_transposed ? c.k : 1};
}

/// Of the product of all factors as they are, or of what a_factor and b_factor make of them.
using Factor = float (*)(float);
inline float Unchanged(float x) { return x; }
inline std::vector<double> Expected(const Case& c, const Data& data, Factor a_factor = Unchanged,
                                    Factor b_factor = Unchanged) {
  // Each factor is read once, by rows of A and columns of B: the loops inside are not optimized.
  const auto factors = [&c](const StridedMatrix& matrix, int64_t rows, Factor factor) {
    std::vector<double> values;
    values.reserve(static_cast<size_t>(rows * c.k));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < c.k; ++p) {
        const float value = matrix.data[p * matrix.k_stride + i * matrix.i_stride];
        values.push_back(static_cast<double>(factor(value)));
      }
    }
    return values;
  };
  const std::vector<double> a = factors(ViewA(c, data), c.m, a_factor);
  const std::vector<double> b = factors(ViewB(c, data), c.n, b_factor);
  std::vector<double> result(static_cast<size_t>(c.m * c.n));
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      if (c.bias == Bias::kRow) sum = data.bias.data<float>()[i];
      if (c.bias == Bias::kColumn) sum = data.bias.data<float>()[j];
      const double *row = a.data() + i * c.k, *column = b.data() + j * c.k;
      for (int64_t p = 0; p < c.k; ++p) sum += row[p] * column[p];
      if (c.addend) sum += static_cast<double>(data.addend.data<float>()[i * (c.n + 2) + j]);
      result[static_cast<size_t>(i * c.n + j)] = Activated(c.activation, sum);
    }
  }
  return result;
}

inline constexpr float kUntouched = 12345.0f;

/// Runs with a wider C than needed and exactly the scratch that was asked for, and checks that
/// nothing outside of both was written.
inline std::vector<float> Multiply(const GemmKernels& kernels, const Case& c, const Data& data,
                                   int threads) {
  const MatrixSource a(kernels, ViewA(c, data)), b(kernels, ViewB(c, data));
  PackedMatrix packed;
  if (c.packed == Packed::kA) packed = PackedMatrix(kernels, GemmSide::kA, c.m, c.k, a);
  if (c.packed == Packed::kB) packed = PackedMatrix(kernels, GemmSide::kB, c.n, c.k, b);
  const int64_t ldc = c.n + 3;
  std::vector<float> output(static_cast<size_t>(c.m * ldc + 1), kUntouched);
  GemmProblem problem;
  problem.size = {c.m, c.n, c.k, c.packed == Packed::kA, c.packed == Packed::kB};
  if (!packed.empty()) problem.packed = packed.panels();
  problem.a = &a;
  problem.b = &b;
  problem.c = output.data();
  problem.ldc = ldc;
  if (c.bias == Bias::kRow) problem.row_bias = data.bias.data<float>();
  if (c.bias == Bias::kColumn) problem.column_bias = data.bias.data<float>();
  problem.activation = c.activation;
  if (c.addend) problem.addend = data.addend.data<float>();
  problem.addend_stride = c.n + 2;
  const int64_t floats = GemmWorkspace(kernels, problem.size, threads);
  Tensor workspace(DType::kF32, {floats + 16});
  std::fill_n(workspace.data<float>() + floats, 16, kUntouched);
  Gemm(kernels, problem, threads, workspace.data<float>());
  for (int64_t i = floats; i < floats + 16; ++i) {
    EXPECT_EQ(workspace.data<float>()[i], kUntouched) << "wrote past the workspace";
  }
  std::vector<float> result;
  for (int64_t i = 0; i < c.m; ++i) {
    const float* row = output.data() + i * ldc;
    result.insert(result.end(), row, row + c.n);
    for (int64_t j = c.n; j < ldc; ++j) EXPECT_EQ(row[j], kUntouched) << "wrote beside C";
  }
  EXPECT_EQ(output.back(), kUntouched);
  return result;
}

}  // namespace oort::gemm_cases
