// SPDX-License-Identifier: MIT
// Products that are a rearrangement of a matrix product, or a sum with one.
#include <algorithm>

#include "core/checked.h"
#include "layers/composite/decomposition.h"
#include "layers/composite/float_dtypes.h"
#include "layers/linear/product.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

Value MatrixProduct(const Decomposer& call, const Value& a, const Value& b) {
  return call("torch.matmul", {{"input", a}, {"other", b}});
}

[[noreturn]] void ThrowRanks(const std::string& expected, const Tensor& a, const Tensor& b) {
  throw Error(ErrorCode::kInvalidArgument,
              "expected " + expected + ", got " + a.ToString() + " and " + b.ToString());
}

/// a[i] * b[j]
std::vector<Value> Outer(const Decomposer& call, const Args& args) {
  const Tensor &a = args.tensor(0), &b = args.tensor(1);
  if (a.rank() != 1 || b.rank() != 1) ThrowRanks("two vectors", a, b);
  return {call.Formula("mul(@0,@1)", {call.Reshape(args[0], {a.elements(), 1}), args[1]})};
}

/// Sums over the last axis of both; a number times a tensor where one has no axes.
std::vector<Value> Inner(const Decomposer& call, const Args& args) {
  const Tensor &a = args.tensor(0), &b = args.tensor(1);
  if (a.rank() == 0 || b.rank() == 0) return {call.Formula("mul(@0,@1)", {args[0], args[1]})};
  const int64_t length = a.dim(-1);
  if (length != b.dim(-1)) ThrowRanks("two last axes of one length", a, b);
  Shape shape = a.shape();
  shape.Erase(a.rank() - 1);
  const int64_t rows = shape.elements(), columns = b.shape().Product(0, b.rank() - 1);
  for (int i = 0; i + 1 < b.rank(); ++i) shape.Append(b.shape()[i]);
  const Value right = call("torch.t", {{"input", call.Reshape(args[1], {columns, length})}});
  return {call.Reshape(MatrixProduct(call, call.Reshape(args[0], {rows, length}), right), shape)};
}

/// The extents of the axes that are not summed over.
Shape RestOf(const Shape& shape, const ScratchVector<int>& summed) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i) {
    if (std::find(summed.begin(), summed.end(), i) == summed.end()) rest.Append(shape[i]);
  }
  return rest;
}

/// The axes that are summed over come first or last, in their order.
Value WithAxesMoved(const Decomposer& call, const Value& x, const ScratchVector<int>& axes,
                    bool first) {
  Value::List from, to;
  const int rest = x.AsTensor().rank() - static_cast<int>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    from.emplace_back(axes[i]);
    to.emplace_back(static_cast<int>(i) + (first ? 0 : rest));
  }
  return call(
      "aten::movedim",
      {{"input", x}, {"source", Value(std::move(from))}, {"destination", Value(std::move(to))}});
}

/// Sums over axes dims_self of a and dims_other of b.
std::vector<Value> Tensordot(const Decomposer& call, const Args& args) {
  const Tensor &a = args.tensor(0), &b = args.tensor(1);
  const ScratchVector<int> left = NormalizeAxes(args[2], a.rank());
  const ScratchVector<int> right = NormalizeAxes(args[3], b.rank());
  int64_t inner = 1;
  bool fits = left.size() == right.size();
  for (size_t i = 0; fits && i < left.size(); ++i) {
    fits = a.shape()[left[i]] == b.shape()[right[i]];
    inner *= a.shape()[left[i]];
  }
  if (!fits) ThrowRanks("axes of one length to sum over", a, b);
  Shape rows = RestOf(a.shape(), left), columns = RestOf(b.shape(), right), shape = rows;
  for (int64_t extent : columns) shape.Append(extent);
  const Value x = call.Reshape(WithAxesMoved(call, args[0], left, false), {rows.elements(), inner});
  const Value y =
      call.Reshape(WithAxesMoved(call, args[1], right, true), {inner, columns.elements()});
  return {call.Reshape(MatrixProduct(call, x, y), shape)};
}

enum class AddedProduct { kBatchSum, kVector, kOuter };

Value Multiply(const Decomposer& call, const Args& args, AddedProduct kind) {
  const Shape &a = args.shape(1), &b = args.shape(2);
  if (kind == AddedProduct::kVector) return MatrixProduct(call, args[1], args[2]);
  if (kind == AddedProduct::kOuter) {
    return MatrixProduct(call, call.Reshape(args[1], {a[0], 1}), call.Reshape(args[2], {1, b[0]}));
  }
  if (a[0] != b[0] || a[2] != b[1]) {
    ThrowRanks("two batches of matrices that can be multiplied", args.tensor(1), args.tensor(2));
  }
  // The sum over the batch is part of the sum in one product of wide matrices.
  const int64_t inner = CheckedMultiply(a[0], a[2]);
  const Value rows =
      call("torch.permute", {{"input", args[1]}, {"dims", Value(Value::List{1, 0, 2})}});
  return MatrixProduct(call, call.Reshape(rows, {a[1], inner}),
                       call.Reshape(args[2], {inner, b[2]}));
}

/// input, a, b, beta, alpha: beta * input + alpha * product, the product being of a kind that addmm
/// has not.
Decomposition AddProductOf(AddedProduct kind) {
  return [kind](const Decomposer& call, const Args& args) -> std::vector<Value> {
    const Tensor &a = args.tensor(1), &b = args.tensor(2);
    const bool batch = kind == AddedProduct::kBatchSum;
    const int a_rank = batch ? 3 : kind == AddedProduct::kVector ? 2 : 1, b_rank = batch ? 3 : 1;
    if (a.rank() != a_rank || b.rank() != b_rank) {
      ThrowRanks("ranks " + std::to_string(a_rank) + " and " + std::to_string(b_rank), a, b);
    }
    const double beta = args[3].AsFloat(), alpha = args[4].AsFloat();
    CheckProductDTypes(a, args.tensor(0));
    CheckFactors(a.dtype(), alpha, beta);
    // A float would make floats of integers.
    const auto factor = [&](double value) {
      return IsInteger(a.dtype()) ? Value(static_cast<int64_t>(value)) : Value(value);
    };
    const Value product = Multiply(call, args, kind);
    // With beta = 0 what is in the input does not count, not even NaN.
    const Value result = beta == 0 ? call.Formula("mul(@0,@1)", {product, factor(alpha)})
                                   : call.Formula("add(mul(@0,@1),mul(@2,@3))",
                                                  {args[0], factor(beta), product, factor(alpha)});
    const Shape& shape = product.AsTensor().shape();
    if (!(result.AsTensor().shape() == shape)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input that broadcasts to " +
                                                   shape.ToString() + ", got " +
                                                   args.shape(0).ToString());
    }
    return {result};
  };
}

/// Blocks a[i,j] * b.
std::vector<Value> Kron(const Decomposer& call, const Args& args) {
  Shape a = args.shape(0), b = args.shape(1);
  while (a.rank() < b.rank()) a.Insert(0, 1);
  while (b.rank() < a.rank()) b.Insert(0, 1);
  if (2 * a.rank() > Shape::kMaxRank) {
    throw Error(ErrorCode::kUnsupported,
                "takes tensors of rank " + std::to_string(Shape::kMaxRank / 2) + " at most");
  }
  Shape left, right, result;
  for (int i = 0; i < a.rank(); ++i) {
    left.Append(a[i]);
    left.Append(1);
    right.Append(1);
    right.Append(b[i]);
    result.Append(CheckedMultiply(a[i], b[i]));
  }
  const Value blocks =
      call.Formula("mul(@0,@1)", {call.Reshape(args[0], left), call.Reshape(args[1], right)});
  return {call.Reshape(blocks, result)};
}

/// One product after another.
Value Chain(const Decomposer& call, const Value::List& factors) {
  if (factors.empty()) throw Error(ErrorCode::kInvalidArgument, "expected at least one matrix");
  Value product = factors.front();
  for (size_t i = 1; i < factors.size(); ++i) product = MatrixProduct(call, product, factors[i]);
  return product;
}

std::vector<Value> MultiDot(const Decomposer& call, const Args& args) {
  return {Chain(call, args[0].AsList())};
}

std::vector<Value> MatrixPower(const Decomposer& call, const Args& args) {
  const int64_t n = args[1].AsInt();
  if (n < 1 || n > 4096) {
    throw Error(ErrorCode::kUnsupported, "takes powers from 1 to 4096, got " + std::to_string(n));
  }
  return {Chain(call, Value::List(static_cast<size_t>(n), args[0]))};
}

/// x1 W x2 + b for each W of a stack.
std::vector<Value> Bilinear(const Decomposer& call, const Args& args) {
  const Tensor &a = args.tensor(0), &b = args.tensor(1), &weight = args.tensor(2);
  if (a.rank() == 0 || a.rank() != b.rank() || weight.rank() != 3) {
    ThrowRanks("two tensors of one rank and weights of rank 3", a, b);
  }
  const int last = a.rank() - 1;
  const int64_t rows = a.shape().Product(0, last);
  Shape shape = a.shape();
  shape[last] = weight.dim(0);
  if (rows != b.shape().Product(0, last)) ThrowRanks("as many rows", a, b);
  Value y = call("torch.einsum", {{"equation", "bi,oij,bj->bo"},
                                  {"", call.Reshape(args[0], {rows, a.dim(-1)})},
                                  {"", args[2]},
                                  {"", call.Reshape(args[1], {rows, b.dim(-1)})}});
  if (args.Has(3)) y = call.Formula("add(@0,@1)", {y, args[3]});
  return {call.Reshape(y, shape)};
}

OperatorSchema AddProductSchema(const char* name, const char* a, const char* b, const char* doc) {
  return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
      .Tensor("input", kProductDTypes)
      .Tensor(a, kProductDTypes)
      .Tensor(b, kProductDTypes)
      .Float("beta", 1)
      .Float("alpha", 1);
}

/// In f32 as a whole where the operands have 16 bits.
void AddProduct(LayerRegistry& registry, const OperatorSchema& schema, AddedProduct kind) {
  registry.Add(schema, WithHalves(schema, CreateDecomposed(AddProductOf(kind))));
}

}  // namespace
}  // namespace oort

OORT_LAYERS(composed_products) {
  using namespace oort;
  AddDecomposition(registry,
                   OperatorSchema({"torch.outer", "aten::outer", "aten::ger"},
                                  "All products of an element of one vector and one of another")
                       .Tensor("input", kAllDTypes)
                       .Tensor("vec2", kAllDTypes),
                   Outer);
  AddDecomposition(registry,
                   OperatorSchema({"torch.inner", "aten::inner"}, "Sums over the last axis of both")
                       .Tensor("input", kProductDTypes)
                       .Tensor("other", kProductDTypes),
                   Inner);
  AddDecomposition(
      registry,
      OperatorSchema({"torch.tensordot", "aten::tensordot"},
                     "Sums over axes dims_self of one tensor and dims_other of another")
          .Tensor("input", kProductDTypes)
          .Tensor("other", kProductDTypes)
          .Ints("dims_self")
          .Nullable()
          .Ints("dims_other")
          .Nullable(),
      Tensordot);
  AddProduct(registry,
             AddProductSchema("addbmm", "batch1", "batch2",
                              "beta * input + alpha * sum of (batch1 @ batch2)"),
             AddedProduct::kBatchSum);
  AddProduct(registry,
             AddProductSchema("addmv", "mat", "vec", "beta * input + alpha * (mat @ vec)"),
             AddedProduct::kVector);
  AddProduct(registry,
             AddProductSchema("addr", "vec1", "vec2", "beta * input + alpha * outer product"),
             AddedProduct::kOuter);
  AddDecomposition(
      registry,
      OperatorSchema({"torch.kron", "aten::kron"}, "Blocks: each element of input * other")
          .Tensor("input", kAllDTypes)
          .Tensor("other", kAllDTypes),
      Kron);
  AddDecomposition(registry,
                   OperatorSchema({"aten::linalg_multi_dot", "aten::chain_matmul"},
                                  "The product of a list of matrices, from the left")
                       .Any("tensors")
                       .Dynamic(),
                   MultiDot);
  AddDecomposition(registry,
                   OperatorSchema({"aten::linalg_matrix_power", "aten::matrix_power"},
                                  "A matrix times itself, n factors")
                       .Tensor("input", kProductDTypes)
                       .Int("n"),
                   MatrixPower);
  const OperatorSchema bilinear =
      OperatorSchema({"F.bilinear", "aten::bilinear"}, "x1 W x2 + bias for each W")
          .Tensor("input1", kProductDTypes)
          .Tensor("input2", kProductDTypes)
          .Tensor("weight", kProductDTypes)
          .OptionalTensor("bias", kProductDTypes);
  registry.Add(bilinear, WithHalves(bilinear, CreateDecomposed(Bilinear)));
}
