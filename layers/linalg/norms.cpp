// SPDX-License-Identifier: MIT
// Norms and conditions of matrices, and tensors read as matrices.
#include <cmath>

#include "layers/aten/overloads.h"
#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// "fro", "nuc", or a number as text may be one.
Value NormOrder(const Value& order) {
  if (!order.IsString()) return order.IsNone() ? Value("fro") : order;
  const std::string& text = order.AsString();
  if (text == "inf") return Value(INFINITY);
  if (text == "-inf") return Value(-INFINITY);
  return order;
}

Value Cast(const Decomposer& call, const Value& x, const Value& dtype) {
  return dtype.IsNone() ? x : call("Tensor.to", {{"input", x}, {"dtype", dtype}});
}

Value Extreme(const Decomposer& call, const Value& x, int axis, bool largest, bool keepdim) {
  return call(largest ? "torch.amax" : "torch.amin",
              {{"input", x}, {"dim", Value(Value::List{axis})}, {"keepdim", keepdim}});
}

/// The sum, the largest or the least of the singular values.
Value OfSingularValues(const Decomposer& call, const Value& x, const std::vector<int>& axes,
                       const Value& order, bool keepdim) {
  const Value moved = call("aten::movedim", {{"input", x},
                                             {"source", Value(Value::List{axes[0], axes[1]})},
                                             {"destination", Value(Value::List{-2, -1})}});
  const Value values = call("aten::linalg_svdvals", {{"input", moved}});
  const Value result =
      order.IsString()
          ? call("torch.sum", {{"input", values}, {"dim", Value(Value::List{-1})}})
          : Extreme(call, values, values.AsTensor().rank() - 1, order.AsFloat() > 0, false);
  if (!keepdim) return result;
  Shape shape = x.AsTensor().shape();
  for (int axis : axes) shape[axis] = 1;
  return call.Reshape(result, shape);
}

Value NormOfMatrix(const Decomposer& call, const Value& x, const Value& given, const Value& dims,
                   bool keepdim) {
  const Value order = NormOrder(given);
  const int rank = x.AsTensor().rank();
  RequireMatrices(x.AsTensor());
  std::vector<int> axes;
  for (int64_t axis : dims.AsInts()) axes.push_back(NormalizeAxis(axis, rank));
  if (axes.size() != 2 || axes[0] == axes[1]) Fail("two axes, " + dims.ToString(), x.AsTensor());
  if (order.IsString() && order.AsString() == "fro") {
    return call("torch.norm", {{"input", x}, {"p", 2}, {"dim", dims}, {"keepdim", keepdim}});
  }
  const double p = order.IsString() ? 0 : order.AsFloat();
  if ((order.IsString() && order.AsString() == "nuc") || std::abs(p) == 2) {
    return OfSingularValues(call, x, axes, order, keepdim);
  }
  if (std::abs(p) != 1 && !std::isinf(p)) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected a norm fro, nuc, 1, 2 or inf, got " + order.ToString());
  }
  const int summed = axes[std::isinf(p) ? 1 : 0];
  int other = axes[std::isinf(p) ? 0 : 1];
  const Value sums =
      call("torch.norm",
           {{"input", x}, {"p", 1}, {"dim", Value(Value::List{summed})}, {"keepdim", keepdim}});
  if (!keepdim && summed < other) --other;
  return Extreme(call, sums, other, p > 0, keepdim);
}

/// input, ord, dim, keepdim, dtype
std::vector<Value> MatrixNorm(const Decomposer& call, const Args& args) {
  return {NormOfMatrix(call, Cast(call, args[0], args[4]), args[1],
                       ValueOr(args, 2, Value(Value::List{-2, -1})),
                       ValueOr(args, 3, false).AsBool())};
}

std::vector<Value> VectorNorm(const Decomposer& call, const Args& args) {
  return {call("torch.norm", {{"input", args[0]},
                              {"p", ValueOr(args, 1, 2)},
                              {"dim", args[2]},
                              {"keepdim", args[3]},
                              {"dtype", args[4]}})};
}

/// With an order, two axes are those of matrices; without one all elements count.
std::vector<Value> AnyNorm(const Decomposer& call, const Args& args) {
  const int axes = args.Has(2) ? static_cast<int>(args[2].AsInts().size()) : args.tensor(0).rank();
  const bool matrix = args.Has(1) && axes == 2;
  if (args.Has(1) && axes > 2) Fail("one or two axes for a norm with an order", args.tensor(0));
  return matrix ? MatrixNorm(call, args) : VectorNorm(call, args);
}

/// ‖A‖ ‖A⁻¹‖, by default in the norm of the largest singular value.
std::vector<Value> Condition(const Decomposer& call, const Args& args) {
  const Value order = args.Has(1) ? NormOrder(args[1]) : Value(2);
  const Value dims = Value::List{-2, -1};
  const auto norm = [&](const Value& x, const Value& kind) {
    return NormOfMatrix(call, x, kind, dims, false);
  };
  if (!order.IsString() && std::abs(order.AsFloat()) == 2) {
    const bool inverted = order.AsFloat() < 0;
    return {call.Formula("div(@0,@1)", {norm(args[0], inverted ? Value(-2) : Value(2)),
                                        norm(args[0], inverted ? Value(2) : Value(-2))})};
  }
  const Value inverse = call("aten::linalg_inv", {{"", args[0]}});
  return {call.Formula("mul(@0,@1)", {norm(args[0], order), norm(inverse, order)})};
}

/// input, keepdim; or input, dim, keepdim.
std::vector<Value> NuclearNorm(const Decomposer& call, const Args& args) {
  const bool with_dim = args[1].IsList();
  const Value keepdim = with_dim ? ValueOr(args, 2, false) : ValueOr(args, 1, false);
  return {NormOfMatrix(call, args[0], "nuc", with_dim ? args[1] : Value(Value::List{-2, -1}),
                       keepdim.AsBool())};
}

/// The inverse of a tensor whose first `ind` axes are the rows of a square matrix.
std::vector<Value> TensorInverse(const Decomposer& call, const Args& args) {
  const Shape& shape = args.shape(0);
  const int64_t index = ValueOr(args, 1, 2).AsInt();
  if (index < 1 || index > shape.rank()) Fail("ind within the rank", args.tensor(0));
  const int ind = static_cast<int>(index);
  const int64_t rows = shape.Product(0, ind);
  Shape turned;
  for (int i = ind; i < shape.rank(); ++i) turned.Append(shape[i]);
  for (int i = 0; i < ind; ++i) turned.Append(shape[i]);
  if (rows == 0 || shape.elements() != rows * rows) Fail("as many rows as columns", args.tensor(0));
  return {
      call.Reshape(call("aten::linalg_inv", {{"", call.Reshape(args[0], {rows, rows})}}), turned)};
}

/// X of tensordot(A, X) = B.
std::vector<Value> TensorSolve(const Decomposer& call, const Args& args) {
  const Shape &a = args.shape(0), &b = args.shape(1);
  if (args.Has(2)) throw Error(ErrorCode::kUnsupported, "takes no dims");
  const int64_t rows = b.elements();
  Shape wanted;
  for (int i = b.rank(); i < a.rank(); ++i) wanted.Append(a[i]);
  if (rows == 0 || wanted.elements() != rows || a.elements() != rows * rows) {
    Fail("a right side that fits " + args.tensor(0).ToString(), args.tensor(1));
  }
  return {call.Reshape(call("aten::linalg_solve", {{"", call.Reshape(args[0], {rows, rows})},
                                                   {"", call.Reshape(args[1], {rows})}}),
                       wanted)};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(norms) {
  using namespace oort;
  const linalg::MatrixOperators add{registry, linalg::kMatrixDTypes | kFloats};
  add({"aten::linalg_norm"}, "A norm of matrices, or the p-norm of vectors",
      "*input ord dim keepdim dtype", AnyNorm);
  add({"aten::linalg_matrix_norm"}, "A norm of matrices: fro, nuc, or ±1, ±2, ±inf",
      "*input ord dim keepdim dtype", MatrixNorm);
  add({"aten::linalg_vector_norm"}, "The p-norm over some axes, or all",
      "*input ord dim keepdim dtype", VectorNorm);
  add({"aten::frobenius_norm"}, "The root of the sum of squares", "*input dim keepdim",
      [](const Decomposer& call, const Args& args) -> std::vector<Value> {
        return {call("torch.norm",
                     {{"input", args[0]}, {"p", 2}, {"dim", args[1]}, {"keepdim", args[2]}})};
      });
  add({"aten::nuclear_norm"}, "The sum of the singular values", "*input dim_or_keepdim keepdim",
      NuclearNorm);
  add({"aten::linalg_cond"}, "How much a matrix may stretch an error: ‖A‖ ‖A⁻¹‖", "*input p",
      Condition);
  add({"aten::linalg_tensorinv"}, "The inverse of a tensor read as a matrix", "*input ind",
      TensorInverse);
  add({"aten::linalg_tensorsolve"}, "X of tensordot(A, X) = B", "*A *B dims", TensorSolve);
  AddAtenForm(registry, {"aten::linalg_matmul"}, {{"torch.matmul", "*input *other"}});
}
