// SPDX-License-Identifier: MIT
// Products that are a rearrangement of a matrix product, or a sum with one.
#include <algorithm>
#include <optional>

#include "core/checked.h"
#include "layers/composite/composite.h"
#include "layers/composite/float_dtypes.h"
#include "layers/linear/product.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

Part MatmulPart(const LayerInit& init) {
  return Part(init, {.type = "torch.matmul", .inputs = {"input", "other"}});
}

[[noreturn]] void ThrowRanks(const std::string& expected, const Tensor& a, const Tensor& b) {
  throw Error(ErrorCode::kInvalidArgument,
              "expected " + expected + ", got " + a.ToString() + " and " + b.ToString());
}

/// a[i] * b[j]
class OuterLayer final : public CompositeLayer {
 public:
  explicit OuterLayer(const LayerInit& init) : multiply_(Part::Expression(init, "mul(@0,@1)", 2)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Tensor &a = args.tensor(0), &b = args.tensor(1);
    if (a.rank() != 1 || b.rank() != 1) ThrowRanks("two vectors", a, b);
    return {steps(multiply_, {Steps::Reshape(args[0], {a.elements(), 1}), args[1]})};
  }

 private:
  Part multiply_;
};

/// Sums over the last axis of both; a number times a tensor where one has no axes.
class InnerLayer final : public CompositeLayer {
 public:
  explicit InnerLayer(const LayerInit& init)
      : multiply_(Part::Expression(init, "mul(@0,@1)", 2)),
        transpose_(init, {.type = "torch.t", .inputs = {"input"}}),
        matmul_(MatmulPart(init)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Tensor &a = args.tensor(0), &b = args.tensor(1);
    if (a.rank() == 0 || b.rank() == 0) return {steps(multiply_, {args[0], args[1]})};
    const int64_t length = a.dim(-1);
    if (length != b.dim(-1)) ThrowRanks("two last axes of one length", a, b);
    Shape shape = a.shape();
    shape.Erase(a.rank() - 1);
    const int64_t rows = shape.elements(), columns = b.shape().Product(0, b.rank() - 1);
    for (int i = 0; i + 1 < b.rank(); ++i) shape.Append(b.shape()[i]);
    const Value right = steps(transpose_, {Steps::Reshape(args[1], {columns, length})});
    const Value product = steps(matmul_, {Steps::Reshape(args[0], {rows, length}), right});
    return {Steps::Reshape(product, shape)};
  }

 private:
  Part multiply_, transpose_, matmul_;
};

/// Sums over axes dims_self of a and dims_other of b.
class TensordotLayer final : public CompositeLayer {
 public:
  explicit TensordotLayer(const LayerInit& init)
      : dims_a_(init.Constant("dims_self")),
        dims_b_(init.Constant("dims_other")),
        permute_(init, {.type = "aten::movedim", .inputs = {"input", "source", "destination"}}),
        matmul_(MatmulPart(init)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Tensor &a = args.tensor(0), &b = args.tensor(1);
    const ScratchVector<int> left = NormalizeAxes(dims_a_, a.rank());
    const ScratchVector<int> right = NormalizeAxes(dims_b_, b.rank());
    int64_t inner = 1;
    bool fits = left.size() == right.size();
    for (size_t i = 0; fits && i < left.size(); ++i) {
      fits = a.shape()[left[i]] == b.shape()[right[i]];
      inner *= a.shape()[left[i]];
    }
    if (!fits) ThrowRanks("axes of one length to sum over", a, b);
    Shape rows = Rest(a.shape(), left), columns = Rest(b.shape(), right), shape = rows;
    for (int64_t extent : columns) shape.Append(extent);
    const Value x = Steps::Reshape(Moved(steps, args[0], left, false), {rows.elements(), inner});
    const Value y = Steps::Reshape(Moved(steps, args[1], right, true), {inner, columns.elements()});
    return {Steps::Reshape(steps(matmul_, {x, y}), shape)};
  }

 private:
  static Shape Rest(const Shape& shape, const ScratchVector<int>& summed) {
    Shape rest;
    for (int i = 0; i < shape.rank(); ++i) {
      if (std::find(summed.begin(), summed.end(), i) == summed.end()) rest.Append(shape[i]);
    }
    return rest;
  }

  /// The axes that are summed over come first or last, in their order.
  Value Moved(const Steps& steps, const Value& x, const ScratchVector<int>& axes,
              bool first) const {
    Value::List from, to;
    const int rest = x.AsTensor().rank() - static_cast<int>(axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      from.emplace_back(axes[i]);
      to.emplace_back(static_cast<int>(i) + (first ? 0 : rest));
    }
    return steps(permute_, {x, Value(std::move(from)), Value(std::move(to))});
  }

  Value dims_a_, dims_b_;
  Part permute_, matmul_;
};

/// beta * input + alpha * product, the product being of a kind that addmm has not.
class AddProductLayer final : public CompositeLayer {
 public:
  enum Kind { kBatchSum, kVector, kOuter };
  AddProductLayer(const LayerInit& init, Kind kind)
      : kind_(kind),
        matmul_(MatmulPart(init)),
        permute_(init,
                 {.type = "torch.permute", .inputs = {"input"}, .params = {{"dims", "(1,0,2)"}}}),
        alpha_(init.Float("alpha")),
        beta_(init.Float("beta")),
        combine_(Combine(init, Value(alpha_), Value(beta_))) {
    // A float would make floats of integers.
    if (!IsIntegerFactor(alpha_) || !IsIntegerFactor(beta_)) return;
    combine_integers_.emplace(
        Combine(init, Value(static_cast<int64_t>(alpha_)), Value(static_cast<int64_t>(beta_))));
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Tensor &a = args.tensor(1), &b = args.tensor(2);
    const int a_rank = kind_ == kBatchSum ? 3 : kind_ == kVector ? 2 : 1;
    const int b_rank = kind_ == kBatchSum ? 3 : 1;
    if (a.rank() != a_rank || b.rank() != b_rank) {
      ThrowRanks("ranks " + std::to_string(a_rank) + " and " + std::to_string(b_rank), a, b);
    }
    CheckProductDTypes(a, args.tensor(0));
    CheckFactors(a.dtype(), alpha_, beta_);
    const Value product = Multiply(steps, args, a.shape(), b.shape());
    const Shape& shape = product.AsTensor().shape();
    const Part& combine = IsInteger(a.dtype()) ? *combine_integers_ : combine_;
    const Value result = steps(combine, {args[0], product});
    if (!(result.AsTensor().shape() == shape)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input that broadcasts to " +
                                                   shape.ToString() + ", got " +
                                                   args.shape(0).ToString());
    }
    return {result};
  }

 private:
  /// With beta = 0 what is in the input does not count, not even NaN.
  static Part Combine(const LayerInit& init, const Value& alpha, const Value& beta) {
    const std::string product = "mul(@1," + alpha.ToString() + ")";
    return Part::Expression(
        init,
        beta.AsFloat() == 0 ? product : "add(mul(@0," + beta.ToString() + ")," + product + ")", 2);
  }

  Value Multiply(const Steps& steps, const Args& args, const Shape& a, const Shape& b) const {
    if (kind_ == kVector) return steps(matmul_, {args[1], args[2]});
    if (kind_ == kOuter) {
      return steps(matmul_,
                   {Steps::Reshape(args[1], {a[0], 1}), Steps::Reshape(args[2], {1, b[0]})});
    }
    if (a[0] != b[0] || a[2] != b[1]) {
      ThrowRanks("two batches of matrices that can be multiplied", args.tensor(1), args.tensor(2));
    }
    // The sum over the batch is part of the sum in one product of wide matrices.
    const int64_t inner = CheckedMultiply(a[0], a[2]);
    return steps(matmul_, {Steps::Reshape(steps(permute_, {args[1]}), {a[1], inner}),
                           Steps::Reshape(args[2], {inner, b[2]})});
  }

  Kind kind_;
  Part matmul_, permute_;
  double alpha_, beta_;
  Part combine_;
  std::optional<Part> combine_integers_;
};

/// Blocks a[i,j] * b.
class KronLayer final : public CompositeLayer {
 public:
  explicit KronLayer(const LayerInit& init) : multiply_(Part::Expression(init, "mul(@0,@1)", 2)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
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
        steps(multiply_, {Steps::Reshape(args[0], left), Steps::Reshape(args[1], right)});
    return {Steps::Reshape(blocks, result)};
  }

 private:
  Part multiply_;
};

/// One product after another: a list of matrices, or a matrix n times.
class ChainLayer final : public CompositeLayer {
 public:
  explicit ChainLayer(const LayerInit& init)
      : power_(init.Arg("n") >= 0), matmul_(MatmulPart(init)) {
    if (!power_) return;
    n_ = init.Int("n");
    if (n_ < 1 || n_ > 4096) {
      throw Error(ErrorCode::kUnsupported,
                  "takes powers from 1 to 4096, got " + std::to_string(n_));
    }
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Value::List factors =
        power_ ? Value::List(static_cast<size_t>(n_), args[0]) : args[0].AsList();
    if (factors.empty()) throw Error(ErrorCode::kInvalidArgument, "expected at least one matrix");
    Value product = factors.front();
    for (size_t i = 1; i < factors.size(); ++i) product = steps(matmul_, {product, factors[i]});
    return {product};
  }

 private:
  bool power_;
  int64_t n_ = 1;
  Part matmul_;
};

/// x1 W x2 + b for each W of a stack.
class BilinearLayer final : public CompositeLayer {
 public:
  explicit BilinearLayer(const LayerInit& init)
      : einsum_(init, {.type = "torch.einsum",
                       .inputs = {"", "", ""},
                       .params = {{"equation", "bi,oij,bj->bo"}}}),
        add_(Part::Expression(init, "add(@0,@1)", 2)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Tensor &a = args.tensor(0), &b = args.tensor(1), &weight = args.tensor(2);
    if (a.rank() == 0 || a.rank() != b.rank() || weight.rank() != 3) {
      ThrowRanks("two tensors of one rank and weights of rank 3", a, b);
    }
    const int last = a.rank() - 1;
    const int64_t rows = a.shape().Product(0, last);
    Shape shape = a.shape();
    shape[last] = weight.dim(0);
    if (rows != b.shape().Product(0, last)) ThrowRanks("as many rows", a, b);
    Value y = steps(einsum_, {Steps::Reshape(args[0], {rows, a.dim(-1)}), args[2],
                              Steps::Reshape(args[1], {rows, b.dim(-1)})});
    if (args.Has(3)) y = steps(add_, {y, args[3]});
    return {Steps::Reshape(y, shape)};
  }

 private:
  Part einsum_, add_;
};

OperatorSchema AddProductSchema(const char* name, const char* a, const char* b, const char* doc) {
  return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
      .Tensor("input", kProductDTypes)
      .Tensor(a, kProductDTypes)
      .Tensor(b, kProductDTypes)
      .Float("beta", 1)
      .Float("alpha", 1);
}

/// In f32 as a whole where the operands have 16 bits.
void AddProduct(LayerRegistry& registry, const OperatorSchema& schema, AddProductLayer::Kind kind) {
  registry.Add(schema, WithHalves(schema, [kind](const LayerInit& init) {
                 return std::make_unique<AddProductLayer>(init, kind);
               }));
}

}  // namespace
}  // namespace oort

OORT_LAYERS(composed_products) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.outer", "aten::outer", "aten::ger"},
                              "All products of an element of one vector and one of another")
                   .Tensor("input", kAllDTypes)
                   .Tensor("vec2", kAllDTypes),
               Create<OuterLayer>());
  registry.Add(OperatorSchema({"torch.inner", "aten::inner"}, "Sums over the last axis of both")
                   .Tensor("input", kProductDTypes)
                   .Tensor("other", kProductDTypes),
               Create<InnerLayer>());
  registry.Add(OperatorSchema({"torch.tensordot", "aten::tensordot"},
                              "Sums over axes dims_self of one tensor and dims_other of another")
                   .Tensor("input", kProductDTypes)
                   .Tensor("other", kProductDTypes)
                   .Ints("dims_self")
                   .Nullable()
                   .Ints("dims_other")
                   .Nullable(),
               Create<TensordotLayer>());
  AddProduct(registry,
             AddProductSchema("addbmm", "batch1", "batch2",
                              "beta * input + alpha * sum of (batch1 @ batch2)"),
             AddProductLayer::kBatchSum);
  AddProduct(registry,
             AddProductSchema("addmv", "mat", "vec", "beta * input + alpha * (mat @ vec)"),
             AddProductLayer::kVector);
  AddProduct(registry,
             AddProductSchema("addr", "vec1", "vec2", "beta * input + alpha * outer product"),
             AddProductLayer::kOuter);
  registry.Add(OperatorSchema({"torch.kron", "aten::kron"}, "Blocks: each element of input * other")
                   .Tensor("input", kAllDTypes)
                   .Tensor("other", kAllDTypes),
               Create<KronLayer>());
  registry.Add(OperatorSchema({"aten::linalg_multi_dot", "aten::chain_matmul"},
                              "The product of a list of matrices, from the left")
                   .Any("tensors")
                   .Dynamic(),
               Create<ChainLayer>());
  registry.Add(OperatorSchema({"aten::linalg_matrix_power", "aten::matrix_power"},
                              "A matrix times itself, n factors")
                   .Tensor("input", kProductDTypes)
                   .Int("n"),
               Create<ChainLayer>());
  const OperatorSchema bilinear =
      OperatorSchema({"F.bilinear", "aten::bilinear"}, "x1 W x2 + bias for each W")
          .Tensor("input1", kProductDTypes)
          .Tensor("input2", kProductDTypes)
          .Tensor("weight", kProductDTypes)
          .OptionalTensor("bias", kProductDTypes);
  registry.Add(bilinear, WithHalves(bilinear, Create<BilinearLayer>()));
}
