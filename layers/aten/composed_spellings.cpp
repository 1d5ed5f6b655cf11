// SPDX-License-Identifier: MIT
// ATen operators that are one or two steps of those that pnnx has names for.
#include <optional>

#include "layers/aten/spelling.h"
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

/// The same elements with at least `rank` axes.
class AtLeastLayer final : public CompositeLayer {
 public:
  explicit AtLeastLayer(int rank) : rank_(rank) {}

 protected:
  std::vector<Value> Compute(const Steps&, const Args& args) const override {
    if (!args[0].IsList()) return {Of(args[0])};
    Value::List results;
    for (const Value& item : args[0].AsList()) results.push_back(Of(item));
    return {Value(std::move(results))};
  }

 private:
  Value Of(const Value& value) const {
    if (value.IsDeferred()) return value;
    const Shape& shape = value.AsTensor().shape();
    if (shape.rank() >= rank_) return value;
    // numpy puts the elements of a vector into the second axis.
    Shape wanted;
    if (rank_ > 1 && shape.rank() < 2) wanted.Append(1);
    for (int i = 0; i < shape.rank(); ++i) wanted.Append(shape[i]);
    while (wanted.rank() < rank_) wanted.Append(1);
    return Steps::Reshape(value, wanted);
  }

  int rank_;
};

/// A matrix with the elements, read as flat, on a diagonal.
class DiagFlatLayer final : public CompositeLayer {
 public:
  explicit DiagFlatLayer(const LayerInit& init)
      : diag_(init, {.type = "torch.diag", .inputs = {"input", "diagonal"}}) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const Shape flat{args.tensor(0).elements()};
    return {steps(diag_, {Steps::Reshape(args[0], flat), args[1]})};
  }

 private:
  Part diag_;
};

/// The sum of conj(a) * b.
class VdotLayer final : public CompositeLayer {
 public:
  explicit VdotLayer(const LayerInit& init)
      : conj_(init, {.type = "torch.conj", .inputs = {"input"}}),
        dot_(init, {.type = "aten::dot", .inputs = {"input", "tensor"}}) {}

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    const bool complex = IsComplex(args.tensor(0).dtype());
    return {steps(dot_, {complex ? steps(conj_, {args[0]}) : args[0], args[1]})};
  }

 private:
  Part conj_, dot_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(composed_spellings) {
  using namespace oort;
  AddSpelling(registry, {"torch.broadcast_to", "aten::broadcast_to"},
              {{"Tensor.expand", "*input sizes"}});
  AddSpelling(registry, {"torch.ravel", "aten::ravel"}, {{"torch.flatten", "*input"}});
  for (int rank = 1; rank <= 3; ++rank) {
    const std::string name = "atleast_" + std::to_string(rank) + "d";
    registry.Add(OperatorSchema({"torch." + name, "aten::" + name},
                                "The same elements with at least " + std::to_string(rank) +
                                    (rank == 1 ? " axis" : " axes"))
                     .Any("input")
                     .Dynamic(),
                 [rank](const LayerInit&) { return std::make_unique<AtLeastLayer>(rank); });
  }
  registry.Add(OperatorSchema({"torch.diagflat", "aten::diagflat"},
                              "A matrix with the elements, read as flat, on a diagonal")
                   .Tensor("input", kAllDTypes)
                   .Int("offset", 0)
                   .Dynamic(),
               Create<DiagFlatLayer>());
  registry.Add(OperatorSchema({"torch.vdot", "aten::vdot"}, "The sum of conj(a) * b of two vectors")
                   .Tensor("input", kAllDTypes)
                   .Tensor("other", kAllDTypes),
               Create<VdotLayer>());
  registry.Add(OperatorSchema({"aten::floordiv"}, "a / b of two numbers, rounded down")
                   .Any("a")
                   .Dynamic()
                   .Any("b")
                   .Dynamic(),
               expression::CreateFromText("floor_divide(@0,@1)"));
}
