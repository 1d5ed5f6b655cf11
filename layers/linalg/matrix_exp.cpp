// SPDX-License-Identifier: MIT
// The exponential of matrices; it needs no factorization.
#include <cmath>
#include <complex>
#include <vector>

#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// A square matrix in the precision that the series is summed in.
template <typename T>
struct Square {
  explicit Square(int64_t extent) : n(extent), values(static_cast<size_t>(n * n)) {}
  T& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * n + j)]; }
  const T& operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * n + j)]; }

  int64_t n;
  std::vector<T> values;
};

template <typename T>
Square<T> operator*(const Square<T>& a, const Square<T>& b) {
  Square<T> result(a.n);
  for (int64_t i = 0; i < a.n; ++i) {
    for (int64_t k = 0; k < a.n; ++k) {
      const T factor = a(i, k);
      for (int64_t j = 0; j < a.n; ++j) result(i, j) += factor * b(k, j);
    }
  }
  return result;
}

/// exp(A) by its series, A halved until that converges quickly.
template <typename T>
Square<T> Exponential(Square<T> a) {
  double bound = 0;
  for (int64_t i = 0; i < a.n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < a.n; ++j) sum += std::abs(a(i, j));
    bound = std::max(bound, sum);
  }
  const int halvings = bound > 0.25 && std::isfinite(bound) ? std::ilogb(bound) + 3 : 0;
  for (T& value : a.values) value *= std::ldexp(1.0, -halvings);
  Square<T> result(a.n);
  for (int64_t i = 0; i < a.n; ++i) result(i, i) = 1;
  Square<T> term = result;
  for (int k = 1; k <= 18; ++k) {
    term = term * a;
    for (size_t i = 0; i < term.values.size(); ++i) {
      term.values[i] /= static_cast<double>(k);
      result.values[i] += term.values[i];
    }
  }
  for (int i = 0; i < halvings; ++i) result = result * result;
  return result;
}

template <typename T>
Tensor Exponentials(const Tensor& x) {
  Tensor result(x.dtype(), x.shape());
  for (int64_t i = 0; i < BatchCount(x); ++i) {
    Square<T> a(x.dim(-1));
    std::copy_n(Begin<T>(x, i), a.values.size(), a.values.begin());
    a = Exponential(std::move(a));
    std::copy(a.values.begin(), a.values.end(), Begin<T>(result, i));
  }
  return result;
}

std::vector<Value> MatrixExponential(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  if (!call.computes()) return {Tensor::Meta(x.dtype(), x.shape())};
  const Tensor result = oort::IsComplex(x.dtype())
                            ? Exponentials<std::complex<double>>(x.To(DType::kC128))
                            : Exponentials<double>(x.To(DType::kF64));
  return {result.To(x.dtype())};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(matrix_exp) {
  using namespace oort;
  const linalg::MatrixOperators add{registry, linalg::kMatrixDTypes};
  add({"aten::linalg_matrix_exp", "aten::matrix_exp", "torch.matrix_exp"},
      "The exponential of square matrices", "*input", MatrixExponential);
}
