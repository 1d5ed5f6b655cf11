// SPDX-License-Identifier: MIT
// Singular values, eigenvalues, and what follows from them.
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// U, S and Vᴴ of one matrix; with `vectors` not set only S.
template <typename T>
Svd<T> SvdOf(Matrix<T> a, bool vectors, bool full) {
  RequireFinite(a);
  Svd<T> of(a, vectors, full);
  RequireConverged(FactorSvd(a, of, vectors, full));
  return of;
}

Tensor SingularMeta(const Tensor& x) {
  return Tensor::Meta(RealDType(x.dtype()), BatchShape(x, {std::min(x.dim(-2), x.dim(-1))}));
}

std::vector<Value> SingularValues(const Decomposer& call, const Tensor& x) {
  RequireMatrices(x);
  return Compute(call, {x}, {SingularMeta(x)}, [](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    Real<T>* s = to[0].template data<Real<T>>();
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      const Svd<T> of = SvdOf(Load<T>(from[0], i), false, false);
      s = std::copy_n(of.s.data(), of.count, s);
    }
  });
}

/// U, S, Vᴴ of each matrix; V instead of Vᴴ where `adjoint` is not set.
std::vector<Value> SingularVectors(const Decomposer& call, const Tensor& x, bool full,
                                   bool adjoint) {
  RequireMatrices(x);
  const int64_t rows = x.dim(-2), columns = x.dim(-1), count = std::min(rows, columns);
  const int64_t width = full ? columns : count;
  const std::vector<Tensor> metas{
      Tensor::Meta(x.dtype(), BatchShape(x, {rows, full ? rows : count})), SingularMeta(x),
      Tensor::Meta(x.dtype(),
                   adjoint ? BatchShape(x, {width, columns}) : BatchShape(x, {columns, width}))};
  return Compute(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      const Svd<T> of = SvdOf(Load<T>(from[0], i), true, full);
      Store(of.u, to[0], i);
      std::copy_n(of.s.data(), count, to[1].template data<Real<T>>() + i * count);
      Store(of.vh, to[2], i, adjoint ? Form::kPlain : Form::kAdjoint);
    }
  });
}

/// input, some, compute_uv: without the vectors torch gives square matrices of zeros.
std::vector<Value> OldSvd(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  if (ValueOr(args, 2, true).AsBool()) {
    return SingularVectors(call, x, !ValueOr(args, 1, true).AsBool(), false);
  }
  const auto zeros = [&](int64_t n) {
    const Shape shape = BatchShape(x, {n, n});
    return call.computes() ? Tensor::Zeros(x.dtype(), shape) : Tensor::Meta(x.dtype(), shape);
  };
  return {zeros(x.dim(-2)), SingularValues(call, x)[0], zeros(x.dim(-1))};
}

/// Eigenvalues of one Hermitian matrix, whose eigenvectors take its place where they are wanted.
template <typename T>
void HermitianEigenOf(Matrix<T>& a, bool upper, bool vectors, Real<T>* values) {
  RequireFinite(a, [upper](Int i, Int j) { return upper ? i <= j : i >= j; });
  RequireConverged(FactorHermitian(a, upper, vectors, values));
}

std::vector<Value> HermitianEigen(const Decomposer& call, const Args& args, bool vectors) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const std::string triangle = ValueOr(args, 1, "L").AsString();
  if (triangle != "L" && triangle != "l" && triangle != "U" && triangle != "u") {
    throw Error(ErrorCode::kInvalidArgument,
                "expected UPLO L or U, got '" + triangle.substr(0, 40) + "'");
  }
  const bool upper = triangle == "U" || triangle == "u";
  const int64_t n = x.dim(-1);
  std::vector<Tensor> metas{Tensor::Meta(RealDType(x.dtype()), BatchShape(x, {n}))};
  if (vectors) metas.push_back(Tensor::Meta(x.dtype(), x.shape()));
  return Compute(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      HermitianEigenOf(a, upper, vectors, to[0].template data<Real<T>>() + i * n);
      if (vectors) Store(a, to[1], i);
    }
  });
}

/// Eigenvalues, in LAPACK's order, and eigenvectors of any square matrices; both are complex.
std::vector<Value> Eigen(const Decomposer& call, const Args& args, bool with_vectors) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const int64_t n = x.dim(-1);
  const DType dtype = ComplexDType(x.dtype());
  std::vector<Tensor> metas{Tensor::Meta(dtype, BatchShape(x, {n}))};
  if (with_vectors) metas.push_back(Tensor::Meta(dtype, x.shape()));
  return Compute(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    using C = std::complex<Real<T>>;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      RequireFinite(a);
      Matrix<C> vectors(with_vectors ? n : 0, with_vectors ? n : 0);
      RequireConverged(
          FactorEigen(a, to[0].template data<C>() + i * n, with_vectors ? &vectors : nullptr));
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

/// Pseudoinverse of one matrix by its singular values.
template <typename T, typename Cut>
void InvertBySvd(const Tensor& from, Tensor& to, int64_t i, const Cut& cutoff) {
  Svd<T> of = SvdOf(Load<T>(from, i), true, false);
  const double least = cutoff(of.count > 0 ? of.s[0] : 0);
  of.vh.Fill([&](Int row, Int column) {
    return of.s[row] > least ? of.vh(row, column) / of.s[row] : T(0);
  });
  Store(Multiply(of.vh, Op::kAdjoint, of.u, Op::kAdjoint), to, i);
}

/// The same of a Hermitian one by its eigenvalues; the lower triangle counts.
template <typename T, typename Cut>
void InvertHermitian(const Tensor& from, Tensor& to, int64_t i, const Cut& cutoff) {
  Matrix<T> q = Load<T>(from, i);
  Scratch<Real<T>> values(q.rows());
  HermitianEigenOf(q, false, true, values.data());
  double largest = 0;
  for (Int j = 0; j < q.columns(); ++j) largest = std::max<double>(largest, std::abs(values[j]));
  const double least = cutoff(largest);
  Matrix<T> scaled(q.rows(), q.columns());
  scaled.Fill([&](Int row, Int column) {
    return std::abs(values[column]) > least ? q(row, column) / values[column] : T(0);
  });
  Store(Multiply(scaled, Op::kNone, q, Op::kAdjoint), to, i);
}

std::vector<Value> PseudoInverse(const Decomposer& call, const Tensor& x, const Value& atol,
                                 const Value& rtol, bool hermitian) {
  RequireMatrices(x);
  if (hermitian) RequireSquare(x);
  const Tensor meta = Tensor::Meta(x.dtype(), BatchShape(x, {x.dim(-1), x.dim(-2)}));
  return Compute(call, {x}, {meta}, [&](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    const auto cutoff = [&](double largest) { return Cutoff(x, atol, rtol, largest); };
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      if (hermitian) {
        InvertHermitian<T>(from[0], to[0], i, cutoff);
      } else {
        InvertBySvd<T>(from[0], to[0], i, cutoff);
      }
    }
  });
}

/// input, atol, rtol, hermitian; or input, rcond, hermitian.
std::vector<Value> LinalgPinv(const Decomposer& call, const Args& args) {
  const bool both = args.inputs().size() != 3;
  return PseudoInverse(call, args.tensor(0), both ? args[1] : Value(), both ? args[2] : args[1],
                       ValueOr(args, both ? 3 : 2, false).AsBool());
}

/// input, atol, rtol, hermitian; or input, tol, hermitian.
std::vector<Value> MatrixRank(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  const bool both = args.inputs().size() != 3;
  const bool hermitian = ValueOr(args, both ? 3 : 2, false).AsBool();
  const Value atol = args[1], rtol = both ? args[2] : args[1].IsNone() ? Value() : Value(0.0);
  const Shape shape = BatchShape(x, {});
  if (!call.computes()) return {Tensor::Meta(DType::kI64, shape)};
  const Tensor s =
      call(hermitian ? "aten::linalg_eigvalsh" : "aten::linalg_svdvals", {{"", args[0]}})
          .AsTensor()
          .To(DType::kF64);
  const int64_t count = s.dim(-1);
  Tensor ranks = Tensor::Zeros(DType::kI64, shape);
  for (int64_t i = 0; i < ranks.elements(); ++i) {
    const double* own = s.data<double>() + i * count;
    double largest = 0;
    for (int64_t j = 0; j < count; ++j) largest = std::max(largest, std::abs(own[j]));
    const double cutoff = Cutoff(x, atol, rtol, largest);
    ranks.data<int64_t>()[i] =
        std::count_if(own, own + count, [&](double v) { return std::abs(v) > cutoff; });
  }
  return {ranks};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(spectrum) {
  using namespace oort;
  const linalg::MatrixOperators add{registry, linalg::kMatrixDTypes, true};
  add(
      {"aten::linalg_svd"}, "U, S and Vᴴ with U diag(S) Vᴴ = A", "*input full_matrices driver",
      [](const Decomposer& call, const Args& args) {
        return SingularVectors(call, args.tensor(0), ValueOr(args, 1, true).AsBool(), true);
      },
      3);
  add({"aten::svd"}, "U, S and V with U diag(S) Vᴴ = A", "*input some compute_uv", OldSvd, 3);
  add({"aten::linalg_svdvals"}, "The singular values, falling", "*input driver",
      [](const Decomposer& call, const Args& args) {
        return SingularValues(call, args.tensor(0));
      });
  add(
      {"aten::linalg_eigh"}, "Eigenvalues, rising, and eigenvectors of Hermitian matrices",
      "*input UPLO",
      [](const Decomposer& call, const Args& args) { return HermitianEigen(call, args, true); }, 2);
  add({"aten::linalg_eigvalsh"}, "The eigenvalues of Hermitian matrices, rising", "*input UPLO",
      [](const Decomposer& call, const Args& args) { return HermitianEigen(call, args, false); });
  add(
      {"aten::linalg_eig"}, "Eigenvalues and eigenvectors of square matrices, complex", "*input",
      [](const Decomposer& call, const Args& args) { return Eigen(call, args, true); }, 2);
  add({"aten::linalg_eigvals"}, "The eigenvalues of square matrices, complex", "*input",
      [](const Decomposer& call, const Args& args) { return Eigen(call, args, false); });
  add({"aten::linalg_pinv"}, "The pseudoinverse",
      "*input atol_or_rcond rtol_or_hermitian hermitian", LinalgPinv);
  add({"aten::pinverse", "torch.pinverse"}, "The pseudoinverse", "*input rcond",
      [](const Decomposer& call, const Args& args) {
        return PseudoInverse(call, args.tensor(0), Value(), ValueOr(args, 1, 1e-15), false);
      });
  add({"aten::linalg_matrix_rank"}, "How many singular values are not 0",
      "*input atol_or_tol rtol_or_hermitian hermitian", MatrixRank);
}
