// SPDX-License-Identifier: MIT
// Reductions that are a few steps of others: diff, count_nonzero, nansum, aminmax, renorm, trace,
// cosine_similarity and cdist.
#include <optional>

#include "core/checked.h"
#include "graph/dtype_names.h"
#include "layers/composite/composite.h"

namespace oort {
namespace {

std::string TextOf(const Value& value) {
  return value.IsList() && value.AsList().empty() ? "None" : value.ToString();
}

/// A reduction over the dims of an operator.
Part ReducePart(const LayerInit& init, const char* type,
                std::map<std::string, std::string> more = {}) {
  Part::Spec spec{.type = type, .inputs = {"input"}, .params = std::move(more)};
  if (const Value& dim = init.Constant("dim"); !dim.IsNone()) spec.params["dim"] = TextOf(dim);
  if (init.Arg("keepdim") >= 0) spec.params["keepdim"] = init.Bool("keepdim") ? "True" : "False";
  return Part(init, std::move(spec));
}

/// Differences of neighbours along an axis, n times over.
class DiffLayer final : public CompositeLayer {
 public:
  explicit DiffLayer(const LayerInit& init)
      : n_(init.Int("n")),
        dim_(init.Int("dim")),
        prepend_(init.Arg("prepend")),
        append_(init.Arg("append")),
        cat_(init,
             {.type = "torch.cat", .inputs = {""}, .params = {{"dim", std::to_string(dim_)}}}),
        narrow_(init, {.type = "torch.narrow", .inputs = {"input", "dim", "start", "length"}}),
        subtract_(Part::Expression(init, "sub(@1,@0)", 2)),
        differ_(Part::Expression(init, "xor(@1,@0)", 2)) {
    if (n_ < 0) throw Error(ErrorCode::kInvalidModel, "expected n of at least 0");
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    Value x = args[0];
    if (x.AsTensor().rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least 1, got 0");
    }
    if (args.Has(prepend_) || args.Has(append_)) {
      Value::List parts;
      if (args.Has(prepend_)) parts.push_back(args[prepend_]);
      parts.push_back(x);
      if (args.Has(append_)) parts.push_back(args[append_]);
      x = steps(cat_, {Value(std::move(parts))});
    }
    const int axis = NormalizeAxis(dim_, x.AsTensor().rank());
    const Part& minus = x.AsTensor().dtype() == DType::kBool ? differ_ : subtract_;
    for (int64_t i = 0; i < n_ && x.AsTensor().shape()[axis] > 0; ++i) {
      const Value length = x.AsTensor().shape()[axis] - 1;
      x = steps(minus, {steps(narrow_, {x, axis, 0, length}),
                        steps(narrow_, {x, axis, x.AsTensor().shape()[axis] > 1 ? 1 : 0, length})});
    }
    return {x};
  }

 private:
  int64_t n_, dim_;
  int prepend_, append_;
  Part cat_, narrow_, subtract_, differ_;
};

/// A map of each element, a reduction, and perhaps a quotient of two of these.
class MappedReduction final : public CompositeLayer {
 public:
  MappedReduction(const LayerInit& init, const char* map, const char* divisor)
      : map_(Part::Expression(init, map, 1)), sum_(ReducePart(init, "torch.sum")) {
    if (const Value& dtype = init.Constant("dtype"); !dtype.IsNone()) {
      cast_.emplace(init,
                    Part::Spec{.type = "Tensor.to",
                               .inputs = {"input"},
                               .params = {{"dtype", std::string(Name(RequireTorchDType(dtype)))}}});
    }
    if (divisor == nullptr) return;
    divisor_.emplace(Part::Expression(init, divisor, 1));
    divide_.emplace(Part::Expression(init, "div(@0,@1)", 2));
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Value x = cast_ ? steps(*cast_, {args[0]}) : args[0];
    const Value sum = steps(sum_, {steps(map_, {x})});
    if (!divisor_) return {sum};
    return {steps(*divide_, {sum, steps(sum_, {steps(*divisor_, {x})})})};
  }

 private:
  Part map_, sum_;
  std::optional<Part> cast_, divisor_, divide_;
};

class AminmaxLayer final : public CompositeLayer {
 public:
  explicit AminmaxLayer(const LayerInit& init)
      : least_(ReducePart(init, "torch.amin")), most_(ReducePart(init, "torch.amax")) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    return {steps(least_, {args[0]}), steps(most_, {args[0]})};
  }

 private:
  Part least_, most_;
};

class MsortLayer final : public CompositeLayer {
 public:
  explicit MsortLayer(const LayerInit& init)
      : sort_(init,
              {.type = "torch.sort", .inputs = {"input"}, .params = {{"dim", "0"}}, .outputs = 2}) {
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    return {steps(sort_, {args[0]})};
  }

 private:
  Part sort_;
};

class TraceLayer final : public CompositeLayer {
 public:
  explicit TraceLayer(const LayerInit& init)
      : diagonal_(init, {.type = "torch.diag", .inputs = {"input"}}),
        sum_(init, {.type = "torch.sum", .inputs = {"input"}}) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    if (args.tensor(0).rank() != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a matrix, got " + args.tensor(0).ToString());
    }
    return {steps(sum_, {steps(diagonal_, {args[0]})})};
  }

 private:
  Part diagonal_, sum_;
};

/// Slices of an axis whose norm is too large are scaled down to it.
class RenormLayer final : public CompositeLayer {
 public:
  explicit RenormLayer(const LayerInit& init)
      : p_(TextOf(init.Constant("p"))),
        dim_(init.Int("dim")),
        norm_(init, {.type = "torch.norm",
                     .inputs = {"input"},
                     .params = {{"p", p_}, {"dim", "(1)"}, {"keepdim", "True"}}}),
        permute_(init, {.type = "torch.transpose",
                        .inputs = {"input"},
                        .params = {{"dim0", "0"}, {"dim1", std::to_string(dim_)}}}),
        scale_(Part::Expression(init, "where(gt(@1,@2),mul(@0,div(@2,add(@1,1e-7))),@0)", 3)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Shape& shape = args.shape(0);
    if (shape.rank() < 2) {
      throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least 2, got 1 or less");
    }
    const Value front = steps(permute_, {args[0]});
    const Shape moved = front.AsTensor().shape();
    const Value rows = Steps::Reshape(front, {moved[0], moved.Product(1, moved.rank())});
    const Value scaled = steps(scale_, {rows, steps(norm_, {rows}), args[3]});
    return {steps(permute_, {Steps::Reshape(scaled, moved)})};
  }

 private:
  std::string p_;
  int64_t dim_;
  Part norm_, permute_, scale_;
};

class CosineSimilarityLayer final : public CompositeLayer {
 public:
  explicit CosineSimilarityLayer(const LayerInit& init)
      : eps_(init.Float("eps")),
        product_(Part::Expression(init, "mul(@0,@1)", 2)),
        sum_(ReducePart(init, "torch.sum")),
        norm_(ReducePart(init, "torch.norm", {{"p", "2"}})),
        divide_(Part::Expression(init, "div(@0,mul(maximum(@1,@3),maximum(@2,@3)))", 4)) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    Value a = args[0], b = args[1];
    const Value product = steps(product_, {a, b});
    // The axis counts in the shape that both are repeated to.
    const Shape& shape = product.AsTensor().shape();
    const auto raised = [&](const Value& x) {
      Shape own = x.AsTensor().shape();
      while (own.rank() < shape.rank()) own.Insert(0, 1);
      return Steps::Reshape(x, own);
    };
    a = raised(a);
    b = raised(b);
    return {steps(divide_, {steps(sum_, {product}), steps(norm_, {a}), steps(norm_, {b}), eps_})};
  }

 private:
  double eps_;
  Part product_, sum_, norm_, divide_;
};

/// The distances of all pairs of rows. As in torch, many rows go through a matrix product.
class CdistLayer final : public CompositeLayer {
 public:
  explicit CdistLayer(const LayerInit& init)
      : p_(init.Float("p")),
        pairs_(init, {.type = "F.pairwise_distance",
                      .inputs = {"x1", "x2"},
                      .params = {{"p", TextOf(init.Constant("p"))}, {"eps", "0.0"}}}),
        squares_(init, {.type = "torch.sum",
                        .inputs = {"input"},
                        .params = {{"dim", "(-1)"}, {"keepdim", "True"}}}),
        square_(Part::Expression(init, "mul(@0,@0)", 1)),
        transpose_(init, {.type = "aten::mT", .inputs = {""}}),
        matmul_(init, {.type = "torch.matmul", .inputs = {"input", "other"}}),
        finish_(Part::Expression(init, "sqrt(clamp(sub(add(@0,@1),mul(@2,2)),0,None))", 3)) {
    if (!(p_ >= 0)) throw Error(ErrorCode::kInvalidModel, "expected p of at least 0");
    if (const Value& mode = init.Constant("compute_mode"); !mode.IsNone()) mode_ = mode.AsInt();
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Tensor &a = args.tensor(0), &b = args.tensor(1);
    if (a.rank() < 2 || b.rank() < 2 || a.dim(-1) != b.dim(-1) || a.dtype() != b.dtype()) {
      throw Error(ErrorCode::kInvalidArgument, "expected rows of one length and dtype, got " +
                                                   a.ToString() + " and " + b.ToString());
    }
    const bool many = mode_ == 1 || (mode_ == 0 && (a.dim(-2) > 25 || b.dim(-2) > 25));
    if (p_ == 2 && many && a.dim(-1) > 0) return {ByProduct(steps, args)};
    Shape left = a.shape(), right = b.shape();
    left.Insert(left.rank() - 1, 1);
    right.Insert(right.rank() - 2, 1);
    return {steps(pairs_, {Steps::Reshape(args[0], left), Steps::Reshape(args[1], right)})};
  }

 private:
  Value ByProduct(const Steps& steps, const Args& args) const {
    const Value a = steps(squares_, {steps(square_, {args[0]})});
    const Value b = steps(transpose_, {steps(squares_, {steps(square_, {args[1]})})});
    return steps(finish_, {a, b, steps(matmul_, {args[0], steps(transpose_, {args[1]})})});
  }

  double p_;
  int64_t mode_ = 0;
  Part pairs_, squares_, square_, transpose_, matmul_, finish_;
};

OperatorSchema ReductionSchema(const char* name, const char* doc, DTypeSet dtypes) {
  return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
      .Tensor("input", dtypes)
      .Ints("dim")
      .Nullable();
}

LayerCreator CreateMapped(const char* map, const char* divisor = nullptr) {
  return
      [=](const LayerInit& init) { return std::make_unique<MappedReduction>(init, map, divisor); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(composed) {
  using namespace oort;
  constexpr DTypeSet kSummed = kReals;
  registry.Add(OperatorSchema({"torch.diff", "aten::diff"},
                              "Differences of neighbours along an axis, n times over")
                   .Tensor("input", kReals)
                   .Int("n", 1)
                   .Int("dim", -1)
                   .OptionalTensor("prepend", kReals)
                   .OptionalTensor("append", kReals),
               Create<DiffLayer>());
  registry.Add(ReductionSchema("count_nonzero", "How many elements are not 0", kSummed),
               CreateMapped("ne(@0,0)"));
  const char* numbers = "where(isnan(@0),0,@0)";
  registry.Add(ReductionSchema("nansum", "The sum of the elements that are not NaN", kSummed)
                   .Bool("keepdim", false)
                   .DTypeName("dtype")
                   .Nullable(),
               CreateMapped(numbers));
  registry.Add(ReductionSchema("nanmean", "The mean of the elements that are not NaN", kFloats)
                   .Bool("keepdim", false)
                   .DTypeName("dtype")
                   .Nullable(),
               CreateMapped(numbers, "logical_not(isnan(@0))"));
  registry.Add(ReductionSchema("aminmax", "The least and the largest element", kReals)
                   .Bool("keepdim", false)
                   .Outputs(2),
               Create<AminmaxLayer>());
  registry.Add(OperatorSchema({"torch.msort", "aten::msort"}, "Sorts along the first axis")
                   .Tensor("input", kReals),
               Create<MsortLayer>());
  registry.Add(OperatorSchema({"torch.trace", "aten::trace"}, "The sum of the diagonal of a matrix")
                   .Tensor("input", kReals),
               Create<TraceLayer>());
  registry.Add(OperatorSchema({"torch.renorm", "aten::renorm"},
                              "The slices of an axis, scaled down where their p-norm is larger "
                              "than maxnorm")
                   .Tensor("input", kFloats)
                   .Any("p")
                   .Int("dim")
                   .Number("maxnorm"),
               Create<RenormLayer>());
  registry.Add(
      OperatorSchema({"F.cosine_similarity", "nn.CosineSimilarity", "aten::cosine_similarity"},
                     "x1 · x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along an axis")
          .Tensor("x1", kFloats)
          .Tensor("x2", kFloats)
          .Int("dim", 1)
          .Float("eps", 1e-8),
      Create<CosineSimilarityLayer>());
  registry.Add(OperatorSchema({"torch.cdist", "aten::cdist"},
                              "The p-norm distances of all pairs of rows of two matrices")
                   .Tensor("x1", DType::kF32 | DType::kF64)
                   .Tensor("x2", DType::kF32 | DType::kF64)
                   .Float("p", 2)
                   .Int("compute_mode")
                   .Nullable(),
               Create<CdistLayer>());
}
