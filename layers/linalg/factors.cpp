// SPDX-License-Identifier: MIT
// LU and QR factorizations, and what is done with their factors.
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// As in torch on a CPU; LAPACK has nothing else.
void RequirePivoting(const Args& args) {
  if (ValueOr(args, 1, true).AsBool()) return;
  throw Error(ErrorCode::kUnsupported, "takes pivot=True: there is no LU without pivots on a CPU");
}

/// LU in one matrix, the exchanged rows counted from 1 as LAPACK does, and perhaps an info.
std::vector<Value> LuFactor(const Decomposer& call, const Args& args, bool with_info) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  RequirePivoting(args);
  const bool check = !with_info || ValueOr(args, 2, false).AsBool();
  const int64_t count = std::min(x.dim(-1), x.dim(-2));
  std::vector<Tensor> metas{Tensor::Meta(x.dtype(), x.shape()),
                            Tensor::Meta(DType::kI32, BatchShape(x, {count}))};
  if (with_info) metas.push_back(Tensor::Meta(DType::kI32, BatchShape(x, {})));
  return Compute(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      const Int info = FactorLu(a, to[1].template data<int32_t>() + i * count);
      if (with_info) to[2].template data<int32_t>()[i] = info;
      if (check) RequireRegular(info, "singular");
      Store(a, to[0], i);
    }
  });
}

/// Splits LU into P, L and U.
template <typename T>
void UnpackLu(const Matrix<T>& lu, const Int* pivots, int64_t index, std::vector<Tensor>& to) {
  const Int rows = lu.rows(), columns = lu.columns(), count = std::min(rows, columns);
  std::vector<Int> order(static_cast<size_t>(rows));  // row i of A becomes row order[i] of L U
  for (Int i = 0; i < rows; ++i) order[static_cast<size_t>(i)] = i;
  for (Int k = 0; k < count; ++k) {
    std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(pivots[k] - 1)]);
  }
  T *p = Begin<T>(to[0], index), *l = Begin<T>(to[1], index), *u = Begin<T>(to[2], index);
  std::fill_n(p, int64_t{rows} * rows, T(0));
  for (Int i = 0; i < rows; ++i) {
    p[int64_t{order[static_cast<size_t>(i)]} * rows + i] = 1;
    for (Int j = 0; j < count; ++j) *l++ = i > j ? lu(i, j) : T(i == j ? 1 : 0);
    for (Int j = 0; i < count && j < columns; ++j) *u++ = i <= j ? lu(i, j) : T(0);
  }
}

std::vector<Tensor> LuMetas(const Tensor& x) {
  const int64_t rows = x.dim(-2), columns = x.dim(-1), count = std::min(rows, columns);
  return {Tensor::Meta(x.dtype(), BatchShape(x, {rows, rows})),
          Tensor::Meta(x.dtype(), BatchShape(x, {rows, count})),
          Tensor::Meta(x.dtype(), BatchShape(x, {count, columns}))};
}

std::vector<Value> Lu(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  RequirePivoting(args);
  return Compute(call, {x}, LuMetas(x), [](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      Scratch<Int> pivots(std::min(a.rows(), a.columns()));
      FactorLu(a, pivots.data());
      UnpackLu(a, pivots.data(), i, to);
    }
  });
}

/// The pivots of matrix `index`; each must be a row of the matrix.
const Int* PivotsOf(const Tensor& pivots, int64_t index, int64_t rows) {
  const Int* own = pivots.data<int32_t>() + index * pivots.dim(-1);
  for (int64_t k = 0; k < pivots.dim(-1); ++k) {
    if (own[k] < 1 || own[k] > rows) {
      throw Error(ErrorCode::kInvalidArgument, "expected pivots from 1 to " + std::to_string(rows) +
                                                   ", got " + std::to_string(own[k]));
    }
  }
  return own;
}

void CheckPivots(const Tensor& lu, const Tensor& pivots) {
  RequireMatrices(lu);
  const int64_t count = std::min(lu.dim(-1), lu.dim(-2));
  if (pivots.dtype() != DType::kI32 || !(pivots.shape() == BatchShape(lu, {count}))) {
    Fail("i32 pivots of the shape " + BatchShape(lu, {count}).ToString(), pivots);
  }
}

std::vector<Value> LuUnpack(const Decomposer& call, const Args& args) {
  CheckPivots(args.tensor(0), args.tensor(1));
  return Compute(call, {args.tensor(0), args.tensor(1)}, LuMetas(args.tensor(0)),
                 [](auto tag, const auto& from, auto& to) {
                   using T = typename decltype(tag)::Type;
                   for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                     const Matrix<T> lu = Load<T>(from[0], i);
                     UnpackLu(lu, PivotsOf(from[1], i, lu.rows()), i, to);
                   }
                 });
}

/// X of A X = B by LU and pivots of A; of X A = B if not `left`, with Aᴴ for A if `adjoint`.
std::vector<Value> LuSolve(const Decomposer& call, const Tensor& lu, const Tensor& pivots,
                           const Tensor& b, bool left, bool adjoint) {
  RequireSquare(lu);
  CheckPivots(lu, pivots);
  if (b.rank() != lu.rank() || b.dim(left ? -2 : -1) != lu.dim(-1) || b.dtype() != lu.dtype() ||
      !(BatchShape(b, {}) == BatchShape(lu, {}))) {
    Fail("a right side that fits " + lu.ToString(), b);
  }
  return Compute(call, {lu, pivots, b}, {Tensor::Meta(b.dtype(), b.shape())},
                 [=](auto tag, const auto& from, auto& to) {
                   using T = typename decltype(tag)::Type;
                   // X A = B is Aᴴ Xᴴ = Bᴴ.
                   const Form form = left ? Form::kPlain : Form::kAdjoint;
                   const Op op = left == adjoint ? Op::kAdjoint : Op::kNone;
                   for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                     const Matrix<T> factors = Load<T>(from[0], i);
                     Matrix<T> x = Load<T>(from[2], i, form);
                     SolveLu(factors, PivotsOf(from[1], i, factors.rows()), op, x);
                     Store(x, to[0], i, form);
                   }
                 });
}

std::vector<Value> LinalgLuSolve(const Decomposer& call, const Args& args) {
  return LuSolve(call, args.tensor(0), args.tensor(1), args.tensor(2),
                 ValueOr(args, 3, true).AsBool(), ValueOr(args, 4, false).AsBool());
}

enum class QrMode { kReduced, kComplete, kOnlyR };

std::vector<Value> Qr(const Decomposer& call, const Tensor& x, QrMode mode) {
  RequireMatrices(x);
  const int64_t rows = x.dim(-2), columns = x.dim(-1), count = std::min(rows, columns);
  const int64_t width = mode == QrMode::kComplete ? rows : count;
  const std::vector<Tensor> metas{
      Tensor::Meta(x.dtype(), mode == QrMode::kOnlyR ? Shape{0} : BatchShape(x, {rows, width})),
      Tensor::Meta(x.dtype(), BatchShape(x, {width, columns}))};
  return Compute(call, {x}, metas, [=](auto tag, const auto& from, auto& to) {
    using T = typename decltype(tag)::Type;
    Scratch<T> tau(count);
    for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
      Matrix<T> a = Load<T>(from[0], i);
      FactorQr(a, tau.data());
      Matrix<T> r(width, columns);
      r.Fill([&](Int row, Int column) { return row <= column ? a(row, column) : T(0); });
      Store(r, to[1], i);
      if (mode == QrMode::kOnlyR) continue;
      Matrix<T> q(rows, width);
      q.Fill([&](Int row, Int column) { return column < count ? a(row, column) : T(0); });
      FormQ(q, tau.data(), count);
      Store(q, to[0], i);
    }
  });
}

/// What `linalg_qr` starts from: R above the reflections, and their factors.
std::vector<Value> Reflections(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireMatrices(x);
  const int64_t count = std::min(x.dim(-2), x.dim(-1));
  return Compute(
      call, {x},
      {Tensor::Meta(x.dtype(), x.shape()), Tensor::Meta(x.dtype(), BatchShape(x, {count}))},
      [=](auto tag, const auto& from, auto& to) {
        using T = typename decltype(tag)::Type;
        for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
          Matrix<T> a = Load<T>(from[0], i);
          FactorQr(a, to[1].template data<T>() + i * count);
          Store(a, to[0], i);
        }
      });
}

std::vector<Value> LinalgQr(const Decomposer& call, const Args& args) {
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
std::vector<Value> HouseholderProduct(const Decomposer& call, const Args& args) {
  const Tensor &x = args.tensor(0), &taus = args.tensor(1);
  RequireMatrices(x);
  const int64_t columns = x.dim(-1), count = taus.rank() > 0 ? taus.dim(-1) : 0;
  if (taus.dtype() != x.dtype() || x.dim(-2) < columns || count > columns ||
      !(taus.shape() == BatchShape(x, {count}))) {
    Fail("reflections and their factors, at most one a column", taus);
  }
  return Compute(call, {x, taus}, {Tensor::Meta(x.dtype(), x.shape())},
                 [=](auto tag, const auto& from, auto& to) {
                   using T = typename decltype(tag)::Type;
                   for (int64_t i = 0; i < BatchCount(from[0]); ++i) {
                     Matrix<T> q = Load<T>(from[0], i);
                     FormQ(q, from[1].template data<T>() + i * count, count);
                     Store(q, to[0], i);
                   }
                 });
}

}  // namespace
}  // namespace oort

OORT_LAYERS(factors) {
  using namespace oort;
  const DTypeSet dtypes = linalg::kMatrixDTypes | DType::kI32;
  const linalg::MatrixOperators plain{registry, dtypes}, add{registry, dtypes, true};
  add(
      {"aten::linalg_lu_factor"}, "L and U in one matrix, and the rows that were exchanged",
      "*input pivot",
      [](const Decomposer& call, const Args& args) { return LuFactor(call, args, false); }, 2);
  add(
      {"aten::linalg_lu_factor_ex"}, "`aten::linalg_lu_factor`, and where a matrix is singular",
      "*input pivot check_errors",
      [](const Decomposer& call, const Args& args) { return LuFactor(call, args, true); }, 3);
  add({"aten::linalg_lu"}, "P, L and U with P L U = A", "*input pivot", Lu, 3);
  plain({"aten::lu_unpack"}, "P, L and U of what `aten::linalg_lu_factor` gave",
        "*LU *pivots unpack_data unpack_pivots", LuUnpack, 3);
  add({"aten::linalg_lu_solve"}, "X of A X = B by the factors of A", "*LU *pivots *B left adjoint",
      LinalgLuSolve);
  add({"aten::lu_solve"}, "X of A X = B by the factors of A", "*B *LU *pivots",
      [](const Decomposer& call, const Args& args) {
        return LuSolve(call, args.tensor(1), args.tensor(2), args.tensor(0), true, false);
      });
  add({"aten::linalg_qr"}, "Q with orthogonal columns and a triangle R with Q R = A", "*input mode",
      LinalgQr, 2);
  add(
      {"aten::qr"}, "Q with orthogonal columns and a triangle R with Q R = A", "*input some",
      [](const Decomposer& call, const Args& args) {
        return Qr(call, args.tensor(0),
                  ValueOr(args, 1, true).AsBool() ? QrMode::kReduced : QrMode::kComplete);
      },
      2);
  add({"aten::geqrf"}, "R above the reflections that Q is the product of, and their factors",
      "*input", Reflections, 2);
  add({"aten::linalg_householder_product", "aten::orgqr"},
      "The product of reflections, as `aten::geqrf` gives them", "*input *tau", HouseholderProduct);
}
