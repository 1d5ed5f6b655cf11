// SPDX-License-Identifier: MIT
// LU and QR factorizations, and what is done with their factors.
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// LU in one matrix, the exchanged rows counted from 1 as LAPACK does, and perhaps an info.
std::vector<Value> LuFactor(const Calls& call, const Args& args, bool with_info) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  const bool pivot = ValueOr(args, 1, true).AsBool();
  const int64_t count = std::min(x.dim(-1), x.dim(-2));
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), x.shape()),
                            Tensor::Meta(DType::kI32, BatchShape(x, {count}))};
  if (with_info) metas.push_back(Tensor::Meta(DType::kI32, BatchShape(x, {})));
  return ComputeWide(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      const Pivots pivots = FactorLu(a, pivot);
      Store(a, to[0], i);
      for (int64_t k = 0; k < count; ++k) {
        to[1].template data<int32_t>()[i * count + k] =
            static_cast<int32_t>(pivots.rows[static_cast<size_t>(k)] + 1);
      }
      if (with_info) {
        to[2].template data<int32_t>()[i] = static_cast<int32_t>(pivots.singular);
      }
    }
  });
}

/// Splits LU into P, L and U.
template <typename T>
void UnpackLu(const Matrix<T>& lu, const std::vector<int64_t>& rows, int64_t index,
              std::vector<Tensor>& to) {
  const int64_t count = std::min(lu.rows, lu.columns);
  Matrix<T> p = Matrix<T>::Identity(lu.rows), l(lu.rows, count), u(count, lu.columns);
  for (size_t k = rows.size(); k-- > 0;) {
    for (int64_t j = 0; j < p.columns; ++j) std::swap(p(static_cast<int64_t>(k), j), p(rows[k], j));
  }
  for (int64_t i = 0; i < lu.rows; ++i) {
    for (int64_t j = 0; j < lu.columns; ++j) {
      if (i > j && j < count) l(i, j) = lu(i, j);
      if (i <= j) u(i, j) = lu(i, j);
    }
    if (i < count) l(i, i) = 1;
  }
  Store(p, to[0], index);
  Store(l, to[1], index);
  Store(u, to[2], index);
}

std::vector<Tensor> LuMetas(const Tensor& x) {
  const int64_t rows = x.dim(-2), columns = x.dim(-1), count = std::min(rows, columns);
  return {Tensor::Meta(x.dtype(), BatchShape(x, {rows, rows})),
          Tensor::Meta(x.dtype(), BatchShape(x, {rows, count})),
          Tensor::Meta(x.dtype(), BatchShape(x, {count, columns}))};
}

std::vector<Value> Lu(const Calls& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  const bool pivot = ValueOr(args, 1, true).AsBool();
  return ComputeWide(call, {x}, LuMetas(x), [pivot](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      const Pivots pivots = FactorLu(a, pivot);
      UnpackLu(a, pivots.rows, i, to);
    }
  });
}

/// Exchanged rows of matrix `index`, counted from 0; each must be one of the matrix.
std::vector<int64_t> PivotsOf(const Tensor& pivots, int64_t index, int64_t rows) {
  std::vector<int64_t> result;
  for (int64_t k = 0; k < pivots.dim(-1); ++k) {
    const int64_t row = int64_t{pivots.data<int32_t>()[index * pivots.dim(-1) + k]} - 1;
    if (row < 0 || row >= rows) {
      throw Error(ErrorCode::kInvalidArgument, "expected pivots from 1 to " + std::to_string(rows) +
                                                   ", got " + std::to_string(row + 1));
    }
    result.push_back(row);
  }
  return result;
}

void CheckPivots(const Tensor& lu, const Tensor& pivots) {
  RequireMatrices(lu);
  const int64_t count = std::min(lu.dim(-1), lu.dim(-2));
  if (pivots.dtype() != DType::kI32 || !(pivots.shape() == BatchShape(lu, {count}))) {
    Fail("i32 pivots of the shape " + BatchShape(lu, {count}).ToString(), pivots);
  }
}

std::vector<Value> LuUnpack(const Calls& call, const Args& args) {
  CheckPivots(args.tensor(0), args.tensor(1));
  return ComputeWide(call, {args.tensor(0), args.tensor(1)}, LuMetas(args.tensor(0)),
                     [](auto tag, const auto& from, auto& to) {
                       using T = typename decltype(tag)::Type;
                       for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                         const Matrix<T> lu = Load<T>(from[0], i);
                         UnpackLu(lu, PivotsOf(from[1], i, lu.rows), i, to);
                       }
                     });
}

/// LU, pivots, B: X of A X = B.
std::vector<Value> LuSolve(const Calls& call, const Value& lu, const Value& pivots,
                           const Value& b) {
  const Tensor &a = lu.AsTensor(), &right = b.AsTensor();
  RequireSquare(a);
  CheckPivots(a, pivots.AsTensor());
  if (right.rank() != a.rank() || right.dim(-2) != a.dim(-1) || right.dtype() != a.dtype() ||
      BatchCount(right) != BatchCount(a)) {
    Fail("a right side that fits " + a.ToString(), right);
  }
  return ComputeWide(call, {a, pivots.AsTensor(), right},
                     {Tensor::Meta(right.dtype(), right.shape())},
                     [](auto tag, const auto& from, auto& to) {
                       using T = typename decltype(tag)::Type;
                       for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                         const Matrix<T> factors = Load<T>(from[0], i);
                         Matrix<T> x = Load<T>(from[2], i);
                         SolveLu(factors, PivotsOf(from[1], i, factors.rows), x);
                         Store(x, to[0], i);
                       }
                     });
}

std::vector<Value> LinalgLuSolve(const Calls& call, const Args& args) {
  if (!ValueOr(args, 3, true).AsBool() || ValueOr(args, 4, false).AsBool()) {
    throw Error(ErrorCode::kUnsupported, "takes left=True and adjoint=False");
  }
  return LuSolve(call, args[0], args[1], args[2]);
}

enum class QrMode { kReduced, kComplete, kOnlyR };

std::vector<Value> Qr(const Calls& call, const Tensor& x, QrMode mode) {
  RequireMatrices(x);
  const int64_t rows = x.dim(-2), columns = x.dim(-1), count = std::min(rows, columns);
  const int64_t width = mode == QrMode::kComplete ? rows : count;
  const std::vector<Tensor> metas{
      Tensor::Meta(x.dtype(), mode == QrMode::kOnlyR ? Shape{0} : BatchShape(x, {rows, width})),
      Tensor::Meta(x.dtype(), BatchShape(x, {width, columns}))};
  return ComputeWide(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i), r(width, columns);
      const std::vector<T> taus = FactorQr(a);
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t k = 0; k <= std::min(j, width - 1); ++k) r(k, j) = a(k, j);
      }
      if (mode != QrMode::kOnlyR) Store(ReflectionProduct(a, taus, width), to[0], i);
      Store(r, to[1], i);
    }
  });
}

std::vector<Value> LinalgQr(const Calls& call, const Args& args) {
  const std::string mode = ValueOr(args, 1, "reduced").AsString();
  if (mode != "reduced" && mode != "complete" && mode != "r") {
    throw Error(ErrorCode::kInvalidArgument,
                "expected mode reduced, complete or r, got " + mode.substr(0, 40));
  }
  return Qr(call, args.tensor(0),
            mode == "reduced"    ? QrMode::kReduced
            : mode == "complete" ? QrMode::kComplete
                                 : QrMode::kOnlyR);
}

/// Q from the reflections that another operator left.
std::vector<Value> HouseholderProduct(const Calls& call, const Args& args) {
  const Tensor &x = args.tensor(0), &taus = args.tensor(1);
  RequireMatrices(x);
  const int64_t columns = x.dim(-1), count = taus.rank() > 0 ? taus.dim(-1) : 0;
  if (taus.dtype() != x.dtype() || x.dim(-2) < columns || count > columns ||
      !(taus.shape() == BatchShape(x, {count}))) {
    Fail("reflections and their factors, at most one a column", taus);
  }
  return ComputeWide(
      call, {x, taus}, {Tensor::Meta(x.dtype(), x.shape())},
      [=](auto tag, const auto& from, auto& to) {
        using T = typename decltype(tag)::Type;
        for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
          const T* own = from[1].template data<T>() + i * count;
          Store(ReflectionProduct(Load<T>(from[0], i), std::vector<T>(own, own + count), columns),
                to[0], i);
        }
      });
}

}  // namespace
}  // namespace oort

OORT_LAYERS(factors) {
  using namespace oort;
  const linalg::MatrixRecipes add{registry, linalg::kMatrixDTypes | DType::kI32};
  add(
      {"aten::linalg_lu_factor"}, "L and U in one matrix, and the rows that were exchanged",
      "*input pivot",
      [](const Calls& call, const Args& args) { return LuFactor(call, args, false); }, 2);
  add(
      {"aten::linalg_lu_factor_ex"}, "`aten::linalg_lu_factor`, and where a matrix is singular",
      "*input pivot check_errors",
      [](const Calls& call, const Args& args) { return LuFactor(call, args, true); }, 3);
  add({"aten::linalg_lu"}, "P, L and U with P L U = A", "*input pivot", Lu, 3);
  add({"aten::lu_unpack"}, "P, L and U of what `aten::linalg_lu_factor` gave",
      "*LU *pivots unpack_data unpack_pivots", LuUnpack, 3);
  add({"aten::linalg_lu_solve"}, "X of A X = B by the factors of A", "*LU *pivots *B left adjoint",
      LinalgLuSolve);
  add({"aten::lu_solve"}, "X of A X = B by the factors of A", "*B *LU *pivots",
      [](const Calls& call, const Args& args) { return LuSolve(call, args[1], args[2], args[0]); });
  add({"aten::linalg_qr"}, "Q with orthogonal columns and a triangle R with Q R = A", "*input mode",
      LinalgQr, 2);
  add(
      {"aten::qr"}, "Q with orthogonal columns and a triangle R with Q R = A", "*input some",
      [](const Calls& call, const Args& args) {
        return Qr(call, args.tensor(0),
                  ValueOr(args, 1, true).AsBool() ? QrMode::kReduced : QrMode::kComplete);
      },
      2);
  add({"aten::linalg_householder_product", "aten::orgqr"},
      "The product of reflections, as `aten::linalg_qr` has them", "*input *tau",
      HouseholderProduct);
}
