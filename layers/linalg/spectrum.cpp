// SPDX-License-Identifier: MIT
// Singular values, eigenvalues of Hermitian matrices, and what follows from them.
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// U, S, Vᴴ of each matrix; S alone where `outputs` is 1.
std::vector<Value> SingularValues(const Calls& call, const Tensor& x, bool full, int outputs,
                                  bool adjoint = true) {
  RequireMatrices(x);
  const int64_t rows = x.dim(-2), columns = x.dim(-1), count = std::min(rows, columns);
  const Tensor s = Tensor::Meta(RealDType(x.dtype()), BatchShape(x, {count}));
  const int64_t wide = full ? columns : count;
  std::vector<Tensor> metas{s};
  if (outputs == 3) {
    metas = {Tensor::Meta(x.dtype(), BatchShape(x, {rows, full ? rows : count})), s,
             Tensor::Meta(x.dtype(), adjoint ? BatchShape(x, {wide, columns})
                                             : BatchShape(x, {columns, wide}))};
  }
  return ComputeWide(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      const Svd<T> of = FactorSvd(Load<T>(from[0], i), full);
      std::copy(of.s.begin(), of.s.end(),
                to[outputs == 3 ? 1 : 0].template data<double>() + i * count);
      if (outputs != 3) continue;
      Store(of.u, to[0], i);
      Store(adjoint ? of.v.Adjoint() : of.v, to[2], i);
    }
  });
}

/// The eigenvectors of a Hermitian matrix are the singular vectors of one shifted to be positive.
template <typename T>
std::vector<double> FactorEigen(const Matrix<T>& a, Matrix<T>& vectors) {
  double bound = 0;
  for (int64_t i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < a.columns; ++j) sum += std::abs(a(i, j));
    bound = std::max(bound, sum);
  }
  Matrix<T> shifted = a;
  for (int64_t i = 0; i < a.rows; ++i) shifted(i, i) += bound;
  const Matrix<T> v = FactorSvd(shifted, false).v;
  const Matrix<T> product = a * v;
  std::vector<double> values;
  for (int64_t j = a.rows - 1; j >= 0; --j) {  // they fall there and rise here
    double value = 0;
    for (int64_t i = 0; i < a.rows; ++i) {
      value += RealPart(Conj(v(i, j)) * product(i, j));
      vectors(i, static_cast<int64_t>(values.size())) = v(i, j);
    }
    values.push_back(value);
  }
  return values;
}

/// A Hermitian matrix from one of its triangles.
template <typename T>
Matrix<T> FromTriangle(Matrix<T> a, bool upper) {
  for (int64_t i = 0; i < a.rows; ++i) {
    a(i, i) = RealPart(a(i, i));
    for (int64_t j = 0; j < i; ++j) (upper ? a(i, j) : a(j, i)) = Conj(upper ? a(j, i) : a(i, j));
  }
  return a;
}

std::vector<Value> HermitianEigen(const Calls& call, const Args& args, bool with_vectors) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const std::string triangle = ValueOr(args, 1, "L").AsString();
  const bool upper = triangle == "U" || triangle == "u";
  const int64_t n = x.dim(-1);
  std::vector<Tensor> metas{Tensor::Meta(RealDType(x.dtype()), BatchShape(x, {n}))};
  if (with_vectors) metas.push_back(Tensor::Meta(x.dtype(), x.shape()));
  return ComputeWide(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> vectors(n, n);
      std::vector<double> values = FactorEigen(FromTriangle(Load<T>(from[0], i), upper), vectors);
      std::copy(values.begin(), values.end(), to[0].template data<double>() + i * n);
      if (with_vectors) Store(vectors, to[1], i);
    }
  });
}

double Epsilon(const Tensor& x) { return RealDType(x.dtype()) == DType::kF32 ? 0x1p-23 : 0x1p-52; }

/// Below which a singular value counts as 0: atol, rtol of the largest, or the precision.
double Cutoff(const Tensor& x, const Value& atol, const Value& rtol, double largest) {
  const double absolute = atol.IsNone() ? 0 : atol.AsFloat();
  double relative = static_cast<double>(std::max(x.dim(-1), x.dim(-2))) * Epsilon(x);
  if (!rtol.IsNone()) {
    relative = rtol.AsFloat();
  } else if (absolute > 0) {
    relative = 0;
  }
  return std::max(absolute, relative * largest);
}

std::vector<Value> PseudoInverse(const Calls& call, const Tensor& x, const Value& atol,
                                 const Value& rtol) {
  RequireMatrices(x);
  const Tensor meta = Tensor::Meta(x.dtype(), BatchShape(x, {x.dim(-1), x.dim(-2)}));
  return ComputeWide(call, {x}, {meta}, [&](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Svd<T> of = FactorSvd(Load<T>(from[0], i), false);
      const double cutoff = Cutoff(x, atol, rtol, of.s.empty() ? 0 : of.s[0]);
      for (int64_t j = 0; j < of.v.columns; ++j) {
        const double s = of.s[static_cast<size_t>(j)];
        for (int64_t k = 0; k < of.v.rows; ++k) of.v(k, j) = s > cutoff ? of.v(k, j) / s : T(0);
      }
      Store(of.v * of.u.Adjoint(), to[0], i);
    }
  });
}

/// input, atol, rtol, hermitian; or input, rcond, hermitian.
std::vector<Value> LinalgPinv(const Calls& call, const Args& args) {
  const bool both = args.inputs().size() != 3;
  return PseudoInverse(call, args.tensor(0), both ? args[1] : Value(), both ? args[2] : args[1]);
}

/// input, atol, rtol, hermitian; or input, tol, hermitian.
std::vector<Value> MatrixRank(const Calls& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  const bool both = args.inputs().size() != 3;
  const Value atol = args[1], rtol = both ? args[2] : args[1].IsNone() ? Value() : Value(0.0);
  const Shape shape = BatchShape(x, {});
  if (!call.computes()) return {Tensor::Meta(DType::kI64, shape)};
  const Tensor s = SingularValues(call, x, false, 1)[0].AsTensor().To(DType::kF64);
  const int64_t count = s.dim(-1);
  Tensor ranks = Tensor::Zeros(DType::kI64, shape);
  for (int64_t i = 0; i < ranks.elements(); ++i) {
    const double* own = s.data<double>() + i * count;
    const double cutoff = Cutoff(x, atol, rtol, count > 0 ? own[0] : 0);
    ranks.data<int64_t>()[i] =
        std::count_if(own, own + count, [&](double v) { return v > cutoff; });
  }
  return {ranks};
}

/// The solution of least squares; the other outputs of torch's are empty with its usual driver,
/// but for the residuals.
std::vector<Value> LeastSquares(const Calls& call, const Args& args) {
  const Tensor &a = args.tensor(0), &b = args.tensor(1);
  RequireMatrices(a);
  if (b.rank() != a.rank() || b.dim(-2) != a.dim(-2) || b.dtype() != a.dtype()) {
    Fail("a right side that fits " + a.ToString(), b);
  }
  const Value inverse = PseudoInverse(call, a, Value(), args[2])[0];
  const Value solution = call("torch.matmul", {{"input", inverse}, {"other", args[1]}});
  Value residuals = Tensor(RealDType(a.dtype()), Shape{0});
  if (a.dim(-2) > a.dim(-1)) {
    const Value left = call("torch.matmul", {{"input", args[0]}, {"other", solution}});
    const Value squares = call.Formula("square(abs(sub(@0,@1)))", {left, args[1]});
    residuals = call("torch.sum", {{"input", squares}, {"dim", Value(Value::List{-2})}});
  }
  return {solution, residuals, Tensor(DType::kI64, Shape{0}),
          Tensor(RealDType(a.dtype()), Shape{0})};
}

/// exp(A) by its series, A halved until that converges quickly.
template <typename T>
Matrix<T> Exponential(Matrix<T> a) {
  double bound = 0;
  for (int64_t i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < a.columns; ++j) sum += std::abs(a(i, j));
    bound = std::max(bound, sum);
  }
  const int halvings = bound > 0.25 && std::isfinite(bound) ? std::ilogb(bound) + 3 : 0;
  for (T& value : a.values) value *= std::ldexp(1.0, -halvings);
  Matrix<T> result = Matrix<T>::Identity(a.rows), term = result;
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

std::vector<Value> MatrixExponential(const Calls& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  return ComputeWide(call, {x}, {Tensor::Meta(x.dtype(), x.shape())},
                     [](auto tag, const auto& from, auto& to) {
                       using T = typename decltype(tag)::Type;
                       for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                         Store(Exponential(Load<T>(from[0], i)), to[0], i);
                       }
                     });
}

}  // namespace
}  // namespace oort

OORT_LAYERS(spectrum) {
  using namespace oort;
  const linalg::MatrixRecipes add{registry, linalg::kMatrixDTypes};
  add(
      {"aten::linalg_svd"}, "U, S and Vᴴ with U diag(S) Vᴴ = A, up to signs",
      "*input full_matrices driver",
      [](const Calls& call, const Args& args) {
        return SingularValues(call, args.tensor(0), ValueOr(args, 1, true).AsBool(), 3);
      },
      3);
  add(
      {"aten::svd"}, "U, S and V with U diag(S) Vᴴ = A, up to signs", "*input some compute_uv",
      [](const Calls& call, const Args& args) {
        return SingularValues(call, args.tensor(0), !ValueOr(args, 1, true).AsBool(), 3, false);
      },
      3);
  add({"aten::linalg_svdvals"}, "The singular values, falling", "*input driver",
      [](const Calls& call, const Args& args) {
        return SingularValues(call, args.tensor(0), false, 1);
      });
  add(
      {"aten::linalg_eigh"},
      "Eigenvalues, rising, and eigenvectors of Hermitian matrices, up to signs", "*input UPLO",
      [](const Calls& call, const Args& args) { return HermitianEigen(call, args, true); }, 2);
  add({"aten::linalg_eigvalsh"}, "The eigenvalues of Hermitian matrices, rising", "*input UPLO",
      [](const Calls& call, const Args& args) { return HermitianEigen(call, args, false); });
  add({"aten::linalg_pinv"}, "The pseudoinverse",
      "*input atol_or_rcond rtol_or_hermitian hermitian", LinalgPinv);
  add({"aten::pinverse", "torch.pinverse"}, "The pseudoinverse", "*input rcond",
      [](const Calls& call, const Args& args) {
        return PseudoInverse(call, args.tensor(0), Value(), ValueOr(args, 1, 1e-15));
      });
  add({"aten::linalg_matrix_rank"}, "How many singular values are not 0",
      "*input atol_or_tol rtol_or_hermitian hermitian", MatrixRank);
  add({"aten::linalg_lstsq"}, "X with the least |A X - B|", "*A *B rcond driver", LeastSquares, 4);
  add({"aten::linalg_matrix_exp", "aten::matrix_exp", "torch.matrix_exp"},
      "The exponential of square matrices", "*input", MatrixExponential);
}
