// SPDX-License-Identifier: MIT
// Systems of linear equations, inverses and determinants, by LU and Cholesky.
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

Tensor InfoMeta(const Tensor& x) { return Tensor::Meta(DType::kI32, BatchShape(x, {})); }

/// How an operator tells of a matrix that cannot be factored: as torch, by an error, unless the
/// numbers of the columns are an output; with check_errors by both.
struct InfoForm {
  bool output = false, check = true;
  InfoForm(const Args& args, bool with_output, int check_errors)
      : output(with_output), check(!with_output || ValueOr(args, check_errors, false).AsBool()) {}
  void Tell(std::vector<Tensor>& outputs, int64_t index, Int info, const char* what) const {
    if (output) outputs.back().data<int32_t>()[index] = info;
    if (check) RequireRegular(info, what);
  }
};

std::vector<Value> Inverse(const Decomposer& call, const Args& args, bool with_info) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const InfoForm form(args, with_info, 1);
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), x.shape())};
  if (with_info) metas.push_back(InfoMeta(x));
  return Compute(call, {x}, metas, [&form](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    Scratch<Int> pivots(from[0].dim(-1));
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i), b = Matrix<T>::Identity(a.rows());
      form.Tell(to, i, FactorLu(a, pivots.data()), "singular");
      SolveLu(a, pivots.data(), Op::kNone, b);
      Store(b, to[0], i);
    }
  });
}

/// The determinant, as it is and as a factor of size 1 with the logarithm of its size.
template <typename T>
struct Determinant {
  explicit Determinant(Matrix<T> a) {
    Scratch<Int> pivots(a.rows());
    FactorLu(a, pivots.data());
    for (Int i = 0; i < a.rows(); ++i) {
      const T factor = a(i, i);
      const Real<T> size = std::abs(factor);
      const Real<T> exchanged = pivots[i] == i + 1 ? 1 : -1;
      plain *= exchanged * factor;
      sign *= size == 0 ? T(0) : exchanged * factor / size;
      log += std::log(size);
    }
  }
  T plain = 1, sign = 1;
  Real<T> log = 0;
};

enum class DeterminantKind { kPlain, kLog, kSignAndLog };

std::vector<Value> DeterminantOf(const Decomposer& call, const Args& args, DeterminantKind kind) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const Shape shape = BatchShape(x, {});
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), shape)};
  if (kind == DeterminantKind::kSignAndLog) {
    metas.push_back(Tensor::Meta(RealDType(x.dtype()), shape));
  }
  return Compute(call, {x}, metas, [kind](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      const Determinant<T> of(Load<T>(from[0], i));
      T& result = to[0].template data<T>()[i];
      switch (kind) {
        case DeterminantKind::kPlain: result = of.plain; break;
        case DeterminantKind::kLog: result = std::log(of.sign) + of.log; break;
        case DeterminantKind::kSignAndLog:
          result = of.sign;
          to[1].template data<Real<T>>()[i] = of.log;
          break;
      }
    }
  });
}

/// Whether B is a batch of vectors, as torch decides it by the shape of A.
bool IsVectors(const Tensor& a, const Tensor& b) {
  RequireSquare(a);
  return b.rank() == 1 || (b.rank() == a.rank() - 1 && b.shape() == BatchShape(a, {a.dim(-1)}));
}

Value Expanded(const Decomposer& call, const Value& x, const Shape& batch) {
  const Tensor& tensor = x.AsTensor();
  Shape shape = batch;
  shape.Append(tensor.dim(-2));
  shape.Append(tensor.dim(-1));
  if (shape == tensor.shape()) return x;
  return call("Tensor.expand", {{"input", x}, {"sizes", Value::Ints(shape.dims())}});
}

/// Calls solve(A, B) on batches of one shape; B is of vectors where the caller says so.
template <typename Body>
std::vector<Value> OnMatrices(const Decomposer& call, Value a, Value b, bool left, bool vectors,
                              const Body& solve) {
  if (vectors) {
    Shape column = b.AsTensor().shape();
    column.Append(1);
    b = call.Reshape(b, column);
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
  std::vector<Value> results = solve(a.AsTensor(), b.AsTensor());
  if (vectors) {
    Shape shape = results[0].AsTensor().shape();
    shape.Erase(shape.rank() - 1);
    results[0] = call.Reshape(results[0], shape);
  }
  return results;
}

std::vector<Value> Solve(const Decomposer& call, const Args& args, bool with_info) {
  const bool left = ValueOr(args, 2, true).AsBool();
  const bool vectors = left && IsVectors(args.tensor(0), args.tensor(1));
  const InfoForm info(args, with_info, 3);
  return OnMatrices(call, args[0], args[1], left, vectors, [&](const Tensor& a, const Tensor& b) {
    std::vector<Tensor> metas{Tensor::Meta(b.dtype(), b.shape())};
    if (with_info) metas.push_back(InfoMeta(b));
    return Compute(call, {a, b}, metas, [&](auto tag, const auto& from, auto& to) {
      using T = typename decltype(tag)::Type;
      const Form form = left ? Form::kPlain : Form::kAdjoint;  // X A = B is Aᴴ Xᴴ = Bᴴ
      Scratch<Int> pivots(a.dim(-1));
      for (int64_t i = 0; i < BatchCount(a); ++i) {
        Matrix<T> lu = Load<T>(from[0], i), x = Load<T>(from[1], i, form);
        info.Tell(to, i, FactorLu(lu, pivots.data()), "singular");
        SolveLu(lu, pivots.data(), left ? Op::kNone : Op::kAdjoint, x);
        Store(x, to[0], i, form);
      }
    });
  });
}

std::vector<Value> Triangles(const Decomposer& call, const Tensor& a, const Tensor& b,
                             const Triangle& form) {
  return Compute(call, {a, b}, {Tensor::Meta(b.dtype(), b.shape())},
                 [&form](auto tag, const auto& from, auto& to) {
                   using T = typename decltype(tag)::Type;
                   for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                     Matrix<T> x = Load<T>(from[1], i);
                     SolveTriangle(Load<T>(from[0], i), form, x);
                     Store(x, to[0], i);
                   }
                 });
}

/// A, B, upper, left, unitriangular
std::vector<Value> SolveTriangular(const Decomposer& call, const Args& args) {
  const Triangle form{.upper = args[2].AsBool(),
                      .unit = ValueOr(args, 4, false).AsBool(),
                      .left = ValueOr(args, 3, true).AsBool()};
  RequireMatrices(args.tensor(1));
  return OnMatrices(call, args[0], args[1], form.left, false,
                    [&](const Tensor& a, const Tensor& b) { return Triangles(call, a, b, form); });
}

/// B, A, upper, transpose, unitriangular; gives A back as the second output.
std::vector<Value> OldTriangularSolve(const Decomposer& call, const Args& args) {
  const Triangle form{.upper = ValueOr(args, 2, true).AsBool(),
                      .unit = ValueOr(args, 4, false).AsBool(),
                      .op = ValueOr(args, 3, false).AsBool() ? Op::kTranspose : Op::kNone};
  RequireMatrices(args.tensor(0));
  std::vector<Value> results =
      OnMatrices(call, args[1], args[0], true, false,
                 [&](const Tensor& a, const Tensor& b) { return Triangles(call, a, b, form); });
  results.push_back(args[1]);
  return results;
}

std::vector<Value> Cholesky(const Decomposer& call, const Args& args, bool with_info) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const bool upper = ValueOr(args, 1, false).AsBool();
  const InfoForm info(args, with_info, 2);
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), x.shape())};
  if (with_info) metas.push_back(InfoMeta(x));
  return Compute(call, {x}, metas, [&](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      info.Tell(to, i, FactorCholesky(a, upper), "not positive definite");
      Store(a, to[0], i);
    }
  });
}

std::vector<Value> CholeskySolve(const Decomposer& call, const Args& args) {
  const bool upper = ValueOr(args, 2, false).AsBool();
  RequireMatrices(args.tensor(0));
  return OnMatrices(call, args[1], args[0], true, false, [&](const Tensor& a, const Tensor& b) {
    return Compute(call, {a, b}, {Tensor::Meta(b.dtype(), b.shape())},
                   [upper](auto tag, const auto& from, auto& to) {
                     using T = typename decltype(tag)::Type;
                     for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                       Matrix<T> x = Load<T>(from[1], i);
                       SolveCholesky(Load<T>(from[0], i), upper, x);
                       Store(x, to[0], i);
                     }
                   });
  });
}

std::vector<Value> CholeskyInverse(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireSquare(x);
  const bool upper = ValueOr(args, 1, false).AsBool();
  return Compute(call, {x}, {Tensor::Meta(x.dtype(), x.shape())},
                 [upper](auto tag, const auto& from, auto& to) {
                   using T = typename decltype(tag)::Type;
                   for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                     Matrix<T> a = Load<T>(from[0], i);
                     RequireRegular(InvertCholesky(a, upper), "singular");
                     Store(a, to[0], i);
                   }
                 });
}

Decomposition WithInfo(std::vector<Value> (*solve)(const Decomposer&, const Args&, bool),
                       bool info) {
  return [=](const Decomposer& call, const Args& args) { return solve(call, args, info); };
}

Decomposition OfDeterminant(DeterminantKind kind) {
  return
      [kind](const Decomposer& call, const Args& args) { return DeterminantOf(call, args, kind); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(solve) {
  using namespace oort;
  const linalg::MatrixOperators add{registry, linalg::kMatrixDTypes, true};
  add({"aten::linalg_inv", "aten::inverse", "torch.inverse"}, "The inverse of square matrices",
      "*input", WithInfo(Inverse, false));
  add({"aten::linalg_inv_ex"}, "The inverse, and where a matrix has none", "*input check_errors",
      WithInfo(Inverse, true), 2);
  add({"aten::linalg_det", "aten::det", "torch.det"}, "The determinant of square matrices",
      "*input", OfDeterminant(DeterminantKind::kPlain));
  add({"aten::logdet", "torch.logdet"}, "The logarithm of the determinant", "*input",
      OfDeterminant(DeterminantKind::kLog));
  add({"aten::linalg_slogdet", "aten::slogdet"},
      "The sign of the determinant, and the logarithm of its size", "*input",
      OfDeterminant(DeterminantKind::kSignAndLog), 2);
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
