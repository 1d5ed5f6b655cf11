// SPDX-License-Identifier: MIT
// Reductions that are a few steps of others: diff, count_nonzero, nansum, aminmax, renorm, trace,
// cosine_similarity and cdist.
#include "core/checked.h"
#include "graph/dtype_names.h"
#include "layers/composite/decomposition.h"

namespace oort {
namespace {

/// An empty list of axes stands for all of them.
Value AxesOf(const Value& dim) { return dim.IsList() && dim.AsList().empty() ? Value() : dim; }

/// input, n, dim, prepend, append: differences of neighbours along an axis, n times over.
std::vector<Value> Diff(const Decomposer& call, const Args& args) {
  const int64_t n = args[1].AsInt();
  if (n < 0) throw Error(ErrorCode::kInvalidModel, "expected n of at least 0");
  Value x = args[0];
  if (x.AsTensor().rank() == 0) {
    throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least 1, got 0");
  }
  if (args.Has(3) || args.Has(4)) {
    Value::List parts;
    if (args.Has(3)) parts.push_back(args[3]);
    parts.push_back(x);
    if (args.Has(4)) parts.push_back(args[4]);
    x = call("torch.cat", {{"", Value(std::move(parts))}, {"dim", args[2]}});
  }
  const int axis = NormalizeAxis(args[2].AsInt(), x.AsTensor().rank());
  const char* minus = x.AsTensor().dtype() == DType::kBool ? "xor(@1,@0)" : "sub(@1,@0)";
  const auto narrow = [&](int64_t start, int64_t length) {
    return call("torch.narrow",
                {{"input", x}, {"dim", axis}, {"start", start}, {"length", length}});
  };
  for (int64_t i = 0; i < n && x.AsTensor().shape()[axis] > 0; ++i) {
    const int64_t extent = x.AsTensor().shape()[axis];
    x = call.Formula(minus, {narrow(0, extent - 1), narrow(extent > 1 ? 1 : 0, extent - 1)});
  }
  return {x};
}

/// input, dim, keepdim, dtype, of which count_nonzero has the first two: a map of each element, a
/// sum, and perhaps the quotient of two of these.
Decomposition MappedSum(const char* map, const char* divisor = nullptr) {
  return [=](const Decomposer& call, const Args& args) -> std::vector<Value> {
    Value x = args[0];
    if (args.size() > 3 && args.Has(3)) {
      const DType dtype = RequireTorchDType(args[3]);
      x = call("Tensor.to", {{"input", x}, {"dtype", std::string(Name(dtype))}});
    }
    const auto sum = [&](const char* text) {
      return call("torch.sum", {{"input", call.Formula(text, {x})},
                                {"dim", AxesOf(args[1])},
                                {"keepdim", args.size() > 2 ? args[2] : Value()}});
    };
    if (divisor == nullptr) return {sum(map)};
    return {call.Formula("div(@0,@1)", {sum(map), sum(divisor)})};
  };
}

/// input, dim, keepdim
std::vector<Value> Aminmax(const Decomposer& call, const Args& args) {
  const auto reduce = [&](const char* type) {
    return call(type, {{"input", args[0]}, {"dim", AxesOf(args[1])}, {"keepdim", args[2]}});
  };
  return {reduce("torch.amin"), reduce("torch.amax")};
}

std::vector<Value> Msort(const Decomposer& call, const Args& args) {
  return {call.All("torch.sort", {{"input", args[0]}, {"dim", 0}}, 2).front()};
}

std::vector<Value> Trace(const Decomposer& call, const Args& args) {
  if (args.tensor(0).rank() != 2) {
    throw Error(ErrorCode::kInvalidArgument, "expected a matrix, got " + args.tensor(0).ToString());
  }
  return {call("torch.sum", {{"input", call("torch.diag", {{"input", args[0]}})}})};
}

/// input, p, dim, maxnorm: slices of an axis whose norm is too large are scaled down to it.
std::vector<Value> Renorm(const Decomposer& call, const Args& args) {
  if (args.shape(0).rank() < 2) {
    throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least 2, got 1 or less");
  }
  const auto exchanged = [&](const Value& x) {
    return call("torch.transpose", {{"input", x}, {"dim0", 0}, {"dim1", args[2]}});
  };
  const Value front = exchanged(args[0]);
  const Shape moved = front.AsTensor().shape();
  const Value rows = call.Reshape(front, {moved[0], moved.Product(1, moved.rank())});
  const Value norm =
      call("torch.norm",
           {{"input", rows}, {"p", args[1]}, {"dim", Value(Value::List{1})}, {"keepdim", true}});
  const Value scaled =
      call.Formula("where(gt(@1,@2),mul(@0,div(@2,add(@1,1e-7))),@0)", {rows, norm, args[3]});
  return {exchanged(call.Reshape(scaled, moved))};
}

/// x1, x2, dim, eps
std::vector<Value> CosineSimilarity(const Decomposer& call, const Args& args) {
  const Value product = call.Formula("mul(@0,@1)", {args[0], args[1]});
  // The axis counts in the shape that both are repeated to.
  const Shape& shape = product.AsTensor().shape();
  const auto norm = [&](const Value& x) {
    Shape own = x.AsTensor().shape();
    while (own.rank() < shape.rank()) own.Insert(0, 1);
    return call("torch.norm", {{"input", call.Reshape(x, own)}, {"dim", args[2]}, {"p", 2}});
  };
  const Value sum = call("torch.sum", {{"input", product}, {"dim", args[2]}});
  return {call.Formula("div(@0,mul(maximum(@1,@3),maximum(@2,@3)))",
                       {sum, norm(args[0]), norm(args[1]), args[3]})};
}

/// The distances of all pairs of rows by a matrix product: |a|² + |b|² - 2 a·b.
Value DistancesByProduct(const Decomposer& call, const Value& a, const Value& b) {
  const auto squares = [&](const Value& x) {
    return call("torch.sum", {{"input", call.Formula("mul(@0,@0)", {x})},
                              {"dim", Value(Value::List{-1})},
                              {"keepdim", true}});
  };
  const auto transposed = [&](const Value& x) { return call("aten::mT", {{"", x}}); };
  const Value product = call("torch.matmul", {{"input", a}, {"other", transposed(b)}});
  return call.Formula("sqrt(clamp(sub(add(@0,@1),mul(@2,2)),0,None))",
                      {squares(a), transposed(squares(b)), product});
}

/// x1, x2, p, compute_mode: the distances of all pairs of rows. As in torch, many rows go through a
/// matrix product.
std::vector<Value> Cdist(const Decomposer& call, const Args& args) {
  const double p = args[2].AsFloat();
  if (!(p >= 0)) throw Error(ErrorCode::kInvalidModel, "expected p of at least 0");
  const int64_t mode = ValueOr(args, 3, 0).AsInt();
  const Tensor &a = args.tensor(0), &b = args.tensor(1);
  if (a.rank() < 2 || b.rank() < 2 || a.dim(-1) != b.dim(-1) || a.dtype() != b.dtype()) {
    throw Error(ErrorCode::kInvalidArgument, "expected rows of one length and dtype, got " +
                                                 a.ToString() + " and " + b.ToString());
  }
  const bool many = mode == 1 || (mode == 0 && (a.dim(-2) > 25 || b.dim(-2) > 25));
  if (p == 2 && many && a.dim(-1) > 0) return {DistancesByProduct(call, args[0], args[1])};
  Shape left = a.shape(), right = b.shape();
  left.Insert(left.rank() - 1, 1);
  right.Insert(right.rank() - 2, 1);
  return {call("F.pairwise_distance", {{"x1", call.Reshape(args[0], left)},
                                       {"x2", call.Reshape(args[1], right)},
                                       {"p", args[2]},
                                       {"eps", 0.0}})};
}

OperatorSchema ReductionSchema(const char* name, const char* doc, DTypeSet dtypes) {
  return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
      .Tensor("input", dtypes)
      .Ints("dim")
      .Nullable();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(composed) {
  using namespace oort;
  constexpr DTypeSet kSummed = kReals;
  AddDecomposition(registry,
                   OperatorSchema({"torch.diff", "aten::diff"},
                                  "Differences of neighbours along an axis, n times over")
                       .Tensor("input", kReals)
                       .Int("n", 1)
                       .Int("dim", -1)
                       .OptionalTensor("prepend", kReals)
                       .OptionalTensor("append", kReals),
                   Diff);
  AddDecomposition(registry,
                   ReductionSchema("count_nonzero", "How many elements are not 0", kSummed),
                   MappedSum("ne(@0,0)"));
  const char* numbers = "where(isnan(@0),0,@0)";
  AddDecomposition(registry,
                   ReductionSchema("nansum", "The sum of the elements that are not NaN", kSummed)
                       .Bool("keepdim", false)
                       .DTypeName("dtype")
                       .Nullable(),
                   MappedSum(numbers));
  AddDecomposition(registry,
                   ReductionSchema("nanmean", "The mean of the elements that are not NaN", kFloats)
                       .Bool("keepdim", false)
                       .DTypeName("dtype")
                       .Nullable(),
                   MappedSum(numbers, "logical_not(isnan(@0))"));
  AddDecomposition(registry,
                   ReductionSchema("aminmax", "The least and the largest element", kReals)
                       .Bool("keepdim", false)
                       .Outputs(2),
                   Aminmax);
  AddDecomposition(registry,
                   OperatorSchema({"torch.msort", "aten::msort"}, "Sorts along the first axis")
                       .Tensor("input", kReals),
                   Msort);
  AddDecomposition(
      registry,
      OperatorSchema({"torch.trace", "aten::trace"}, "The sum of the diagonal of a matrix")
          .Tensor("input", kReals),
      Trace);
  AddDecomposition(registry,
                   OperatorSchema({"torch.renorm", "aten::renorm"},
                                  "The slices of an axis, scaled down where their p-norm is larger "
                                  "than maxnorm")
                       .Tensor("input", kFloats)
                       .Any("p")
                       .Int("dim")
                       .Number("maxnorm"),
                   Renorm);
  AddDecomposition(
      registry,
      OperatorSchema({"F.cosine_similarity", "nn.CosineSimilarity", "aten::cosine_similarity"},
                     "x1 · x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along an axis")
          .Tensor("x1", kFloats)
          .Tensor("x2", kFloats)
          .Int("dim", 1)
          .Float("eps", 1e-8),
      CosineSimilarity);
  AddDecomposition(registry,
                   OperatorSchema({"torch.cdist", "aten::cdist"},
                                  "The p-norm distances of all pairs of rows of two matrices")
                       .Tensor("x1", DType::kF32 | DType::kF64)
                       .Tensor("x2", DType::kF32 | DType::kF64)
                       .Float("p", 2)
                       .Int("compute_mode")
                       .Nullable(),
                   Cdist);
}
