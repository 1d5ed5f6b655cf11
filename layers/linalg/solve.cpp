// SPDX-License-Identifier: MIT
// Systems of linear equations, inverses and determinants, by LU and Cholesky.
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

void CheckRegular(int64_t info, const char* what) {
  if (info == 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string("the matrix is ") + what + " (at column " + std::to_string(info) + ")");
}

/// How an operator tells of a matrix that cannot be factored: as torch, by an error, unless the
/// numbers of the columns are an output.
Tensor InfoMeta(const Tensor& x) { return Tensor::Meta(DType::kI32, BatchShape(x, {})); }

void TellInfo(std::vector<Tensor>& outputs, size_t at, int64_t index, int64_t info,
              const char* what) {
  if (at < outputs.size()) {
    outputs[at].data<int32_t>()[index] = static_cast<int32_t>(info);
  } else {
    CheckRegular(info, what);
  }
}

std::vector<Value> Inverse(const Calls& call, const Args& args, bool with_info) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), x.shape())};
  if (with_info) metas.push_back(InfoMeta(x));
  return ComputeWide(call, {x}, metas, [](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i), b = Matrix<T>::Identity(a.rows);
      const Pivots pivots = FactorLu(a);
      TellInfo(to, 1, i, pivots.singular, "singular");
      SolveLu(a, pivots.rows, b);
      Store(b, to[0], i);
    }
  });
}

/// The determinant as a factor of size 1 and the logarithm of its size.
template <typename T>
std::pair<T, double> SignAndLog(Matrix<T> a) {
  const Pivots pivots = FactorLu(a);
  T sign = static_cast<double>(pivots.sign);
  double log = 0;
  for (int64_t i = 0; i < a.rows; ++i) {
    const double size = std::abs(a(i, i));
    sign = size == 0 ? T(0) : sign * a(i, i) / size;
    log += std::log(size);
  }
  return {sign, log};
}

enum class Determinant { kPlain, kLog, kSignAndLog };

std::vector<Value> DeterminantOf(const Calls& call, const Args& args, Determinant kind) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const Shape shape = BatchShape(x, {});
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), shape)};
  if (kind == Determinant::kSignAndLog) metas.push_back(Tensor::Meta(RealDType(x.dtype()), shape));
  return ComputeWide(call, {x}, metas, [kind](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      const auto [sign, log] = SignAndLog(Load<T>(from[0], i));
      T& result = to[0].template data<T>()[i];
      if (kind == Determinant::kSignAndLog) to[1].template data<double>()[i] = log;
      result = kind == Determinant::kSignAndLog ? sign
               : kind == Determinant::kLog      ? std::log(sign) + log
                                                : sign * std::exp(log);
    }
  });
}

/// Whether B is a batch of vectors, as torch decides it by the shape of A.
bool IsVectors(const Tensor& a, const Tensor& b) {
  RequireSquare(a);
  return b.rank() == 1 || (b.rank() == a.rank() - 1 && b.shape() == BatchShape(a, {a.dim(-1)}));
}

Value Expanded(const Calls& call, const Value& x, const Shape& batch) {
  const Tensor& tensor = x.AsTensor();
  Shape shape = batch;
  shape.Append(tensor.dim(-2));
  shape.Append(tensor.dim(-1));
  if (shape == tensor.shape()) return x;
  return call("Tensor.expand", {{"input", x}, {"sizes", Value::Ints(shape.dims())}});
}

/// Calls solve(A, B) on batches of one shape; B may be vectors where the caller says so.
template <typename Body>
std::vector<Value> OnMatrices(const Calls& call, Value a, Value b, bool left, bool vectors,
                              const Body& solve) {
  if (vectors) {
    Shape column = b.AsTensor().shape();
    column.Append(1);
    b = Steps::Reshape(b, column);
  }
  RequireSquare(a.AsTensor());
  RequireMatrices(b.AsTensor());
  if (a.AsTensor().dtype() != b.AsTensor().dtype() ||
      a.AsTensor().dim(-1) != b.AsTensor().dim(left ? -2 : -1)) {
    Fail("a right side that fits " + a.AsTensor().ToString(), b.AsTensor());
  }
  const Shape batch = BroadcastShapes(BatchShape(a.AsTensor(), {}), BatchShape(b.AsTensor(), {}));
  a = Expanded(call, a, batch);
  b = Expanded(call, b, batch);
  std::vector<Value> results = solve(a, b);
  if (vectors) {
    Shape shape = results[0].AsTensor().shape();
    shape.Erase(shape.rank() - 1);
    results[0] = Steps::Reshape(results[0], shape);
  }
  return results;
}

Value SwapAxes(const Calls& call, const Value& x) {
  return call("torch.transpose", {{"input", x}, {"dim0", -1}, {"dim1", -2}});
}

std::vector<Value> Solve(const Calls& call, const Args& args, bool with_info) {
  const bool left = ValueOr(args, 2, true).AsBool();
  const bool vectors = left && IsVectors(args.tensor(0), args.tensor(1));
  return OnMatrices(
      call, args[0], args[1], left, vectors,
      [&](const Value& a, const Value& b) -> std::vector<Value> {
        const Value left_a = left ? a : SwapAxes(call, a), left_b = left ? b : SwapAxes(call, b);
        const Tensor& right = left_b.AsTensor();
        std::vector<Tensor> metas{Tensor::Meta(right.dtype(), right.shape())};
        if (with_info) metas.push_back(InfoMeta(right));
        std::vector<Value> results = ComputeWide(
            call, {left_a.AsTensor(), right}, metas, [](auto tag, const auto& from, auto& to) {
              using T = typename decltype(tag)::Type;
              for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                Matrix<T> lu = Load<T>(from[0], i), x = Load<T>(from[1], i);
                const Pivots pivots = FactorLu(lu);
                TellInfo(to, 1, i, pivots.singular, "singular");
                SolveLu(lu, pivots.rows, x);
                Store(x, to[0], i);
              }
            });
        if (!left) results[0] = SwapAxes(call, results[0]);
        return results;
      });
}

std::vector<Value> Triangles(const Calls& call, const Value& a, const Value& b, bool upper,
                             bool left, bool unit) {
  const Value left_a = left ? a : SwapAxes(call, a), left_b = left ? b : SwapAxes(call, b);
  const Tensor& right = left_b.AsTensor();
  const bool above = upper == left;
  std::vector<Value> results =
      ComputeWide(call, {left_a.AsTensor(), right}, {Tensor::Meta(right.dtype(), right.shape())},
                  [above, unit](auto tag, const auto& from, auto& to) {
                    using T = typename decltype(tag)::Type;
                    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                      Matrix<T> x = Load<T>(from[1], i);
                      SolveTriangle(Load<T>(from[0], i), x, above, unit);
                      Store(x, to[0], i);
                    }
                  });
  if (!left) results[0] = SwapAxes(call, results[0]);
  return results;
}

/// A, B, upper, left, unitriangular
std::vector<Value> SolveTriangular(const Calls& call, const Args& args) {
  const bool upper = args[2].AsBool(), left = ValueOr(args, 3, true).AsBool();
  const bool unit = ValueOr(args, 4, false).AsBool();
  RequireMatrices(args.tensor(1));
  return OnMatrices(call, args[0], args[1], left, false, [&](const Value& a, const Value& b) {
    return Triangles(call, a, b, upper, left, unit);
  });
}

/// B, A, upper, transpose, unitriangular; gives A back as the second output.
std::vector<Value> OldTriangularSolve(const Calls& call, const Args& args) {
  const bool transposed = ValueOr(args, 3, false).AsBool();
  const bool upper = ValueOr(args, 2, true).AsBool() != transposed;
  const Value a = transposed ? SwapAxes(call, args[1]) : args[1];
  RequireMatrices(args.tensor(0));
  std::vector<Value> results =
      OnMatrices(call, a, args[0], true, false, [&](const Value& left, const Value& b) {
        return Triangles(call, left, b, upper, true, ValueOr(args, 4, false).AsBool());
      });
  results.push_back(args[1]);
  return results;
}

std::vector<Value> Cholesky(const Calls& call, const Args& args, bool with_info) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const bool upper = ValueOr(args, 1, false).AsBool();
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), x.shape())};
  if (with_info) metas.push_back(InfoMeta(x));
  return ComputeWide(call, {x}, metas, [upper](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      // Only one triangle counts.
      Matrix<T> a = upper ? Load<T>(from[0], i).Adjoint() : Load<T>(from[0], i);
      TellInfo(to, 1, i, FactorCholesky(a), "not positive definite");
      Store(upper ? a.Adjoint() : a, to[0], i);
    }
  });
}

/// B (or the unit matrix), and a triangle L of L Lᴴ X = B.
template <typename T>
Matrix<T> SolveByCholesky(const Matrix<T>& triangle, bool upper, Matrix<T> b) {
  const Matrix<T> other = triangle.Adjoint();
  SolveTriangle(upper ? other : triangle, b, false, false);
  SolveTriangle(upper ? triangle : other, b, true, false);
  return b;
}

std::vector<Value> CholeskySolve(const Calls& call, const Args& args) {
  const bool upper = ValueOr(args, 2, false).AsBool();
  RequireMatrices(args.tensor(0));
  return OnMatrices(call, args[1], args[0], true, false, [&](const Value& a, const Value& b) {
    const Tensor& right = b.AsTensor();
    return ComputeWide(call, {a.AsTensor(), right}, {Tensor::Meta(right.dtype(), right.shape())},
                       [upper](auto tag, const auto& from, auto& to) {
                         using T = typename decltype(tag)::Type;
                         for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                           Store(SolveByCholesky(Load<T>(from[0], i), upper, Load<T>(from[1], i)),
                                 to[0], i);
                         }
                       });
  });
}

std::vector<Value> CholeskyInverse(const Calls& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const bool upper = ValueOr(args, 1, false).AsBool();
  return ComputeWide(call, {x}, {Tensor::Meta(x.dtype(), x.shape())},
                     [upper](auto tag, const auto& from, auto& to) {
                       using T = typename decltype(tag)::Type;
                       for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                         const Matrix<T> a = Load<T>(from[0], i);
                         Store(SolveByCholesky(a, upper, Matrix<T>::Identity(a.rows)), to[0], i);
                       }
                     });
}

Recipe WithInfo(std::vector<Value> (*recipe)(const Calls&, const Args&, bool), bool info) {
  return [=](const Calls& call, const Args& args) { return recipe(call, args, info); };
}

Recipe OfDeterminant(Determinant kind) {
  return [kind](const Calls& call, const Args& args) { return DeterminantOf(call, args, kind); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(solve) {
  using namespace oort;
  const linalg::MatrixRecipes add{registry, linalg::kMatrixDTypes};
  add({"aten::linalg_inv", "aten::inverse", "torch.inverse"}, "The inverse of square matrices",
      "*input", WithInfo(Inverse, false));
  add({"aten::linalg_inv_ex"}, "The inverse, and where a matrix has none", "*input check_errors",
      WithInfo(Inverse, true), 2);
  add({"aten::linalg_det", "aten::det", "torch.det"}, "The determinant of square matrices",
      "*input", OfDeterminant(Determinant::kPlain));
  add({"aten::logdet", "torch.logdet"}, "The logarithm of the determinant", "*input",
      OfDeterminant(Determinant::kLog));
  add({"aten::linalg_slogdet", "aten::slogdet"},
      "The sign of the determinant, and the logarithm of its size", "*input",
      OfDeterminant(Determinant::kSignAndLog), 2);
  add({"aten::linalg_solve"}, "X of A X = B, or of X A = B", "*A *B left", WithInfo(Solve, false));
  add({"aten::linalg_solve_ex"}, "X of A X = B, and where there is none", "*A *B left check_errors",
      WithInfo(Solve, true), 2);
  add({"aten::linalg_solve_triangular"}, "X of A X = B, A being a triangle",
      "*A *B upper left unitriangular", SolveTriangular);
  add({"aten::triangular_solve"}, "X of A X = B, A being a triangle",
      "*B *A upper transpose unitriangular", OldTriangularSolve, 2);
  add({"aten::linalg_cholesky", "aten::cholesky"}, "A triangle L with L Lᴴ = A", "*input upper",
      WithInfo(Cholesky, false));
  add({"aten::linalg_cholesky_ex"}, "A triangle L with L Lᴴ = A, and where there is none",
      "*input upper check_errors", WithInfo(Cholesky, true), 2);
  add({"aten::cholesky_solve"}, "X of L Lᴴ X = B", "*B *L upper", CholeskySolve);
  add({"aten::cholesky_inverse"}, "The inverse of L Lᴴ", "*L upper", CholeskyInverse);
}
