// SPDX-License-Identifier: MIT
// Products that are large enough for BLAS, of small integers: sums are exact in any order.
#include <gtest/gtest.h>

#include <array>
#include <complex>

#include "cpu/lapack.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

template <typename T>
Tensor Integers(Shape shape, int64_t factor) {
  Tensor tensor(kDTypeOf<T>, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const auto value = static_cast<double>(i * factor % 23 - 11);
    if constexpr (std::is_same_v<T, double>) {
      tensor.data<T>()[i] = value;
    } else {
      using Part = typename T::value_type;
      tensor.data<T>()[i] = T(static_cast<Part>(value), static_cast<Part>(i * factor % 5 - 2));
    }
  }
  return tensor;
}

/// C of `batch` products; B is the same in all where its stack has one matrix.
template <typename T>
Tensor Expected(const Tensor& a, const Tensor& b, int64_t batch, bool b_transposed) {
  const int64_t m = a.dim(-2), k = a.dim(-1), n = b.dim(b_transposed ? -2 : -1);
  Tensor c(kDTypeOf<T>, {batch, m, n});
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const int64_t matrix = i / (m * n), row = i / n % m, column = i % n;
    const T* left = a.data<T>() + (matrix * m + row) * k;
    const T* right = b.data<T>() + (b.elements() == k * n ? 0 : matrix * k * n);
    T sum = 0;
    for (int64_t p = 0; p < k; ++p) {
      sum += left[p] * right[b_transposed ? column * k + p : p * n + column];
    }
    c.data<T>()[i] = sum;
  }
  return c;
}

template <typename T>
void ExpectExactProducts() {
  // Several pieces of work down and across, and stacks of matrices.
  for (const auto& [batch, stack, m, k, n] :
       {std::array<int64_t, 5>{1, 1, 300, 40, 530}, {3, 3, 33, 34, 35}, {3, 1, 33, 34, 35}}) {
    const Tensor a = Integers<T>({batch, m, k}, 7), b = Integers<T>({stack, k, n}, 3);
    OperatorCase("torch.matmul")
        .Input(a)
        .Input(b)
        .ExpectOutputs({Expected<T>(a, b, batch, false)}, {0, 0});
  }
}

TEST(MatmulByBlas, IsExactOnIntegers) {
#ifndef OORT_NO_LAPACK  // without it the kernels of Oort do these products, as exactly
  ASSERT_TRUE(lapack::IsAvailable()) << lapack::Description();
#endif
  ExpectExactProducts<double>();
  ExpectExactProducts<std::complex<float>>();
  ExpectExactProducts<std::complex<double>>();
}

TEST(MatmulByBlas, TakesVectors) {
  const Tensor a = Integers<double>({1, 300, 200}, 5), x = Integers<double>({200, 1}, 3);
  OperatorCase("torch.mv")
      .Input(a.Reshaped({300, 200}))
      .Input(x.Reshaped({200}))
      .ExpectOutputs({Expected<double>(a, x, 1, false).Reshaped({300})}, {0, 0});
}

TEST(MatmulByBlas, LinearAddsItsBias) {
  const Tensor x = Integers<double>({1, 200, 60}, 5), weight = Integers<double>({70, 60}, 3);
  const Tensor bias = Integers<double>({70}, 11);
  Tensor want = Expected<double>(x, weight, 1, true);
  for (int64_t i = 0; i < want.elements(); ++i) {
    want.data<double>()[i] += bias.data<double>()[i % 70];
  }
  OperatorCase("nn.Linear")
      .Param("in_features", "60")
      .Param("out_features", "70")
      .Param("bias", "True")
      .Attribute("weight", weight)
      .Attribute("bias", bias)
      .Input(x)
      .ExpectOutputs({want}, {0, 0});
}

}  // namespace
}  // namespace oort::testing
