// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/checked.h"
#include "layers/repair_log.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

[[noreturn]] void ThrowShape(const Shape& input, const Value& wanted) {
  throw Error(ErrorCode::kInvalidArgument,
              "cannot reshape " + input.ToString() + " to " + wanted.ToString());
}

/// Gives the one negative extent what the other extents leave. Where pnnx multiplied an unknown
/// extent, written as -1, by a number of heads, it is -16 or the like.
void FillFreeAxis(const Shape& input, const Value& wanted, int free_axis, Shape* shape) {
  const int64_t unit = (*shape)[free_axis];
  int64_t known = 1;
  for (int i = 0; i < shape->rank(); ++i) {
    if (i != free_axis) known = CheckedMultiply(known, (*shape)[i]);
  }
  if (known == 0 || input.elements() % known != 0) ThrowShape(input, wanted);
  (*shape)[free_axis] = input.elements() / known;
  if ((*shape)[free_axis] % unit != 0) ThrowShape(input, wanted);
}

/// pnnx writes 0 for "the extent of the input at this axis". Where the input has no elements a 0
/// may also mean itself, as in torch; that reading goes first.
Shape ResolveShape(const Shape& input, const Value& wanted) {
  const std::vector<int64_t> extents = wanted.IsNone() ? std::vector<int64_t>{} : wanted.AsInts();
  Shape shape{std::span<const int64_t>(extents)};
  int free_axis = -1;
  bool has_zero = false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 0 && free_axis >= 0) ThrowShape(input, wanted);
    if (shape[i] < 0) free_axis = i;
    has_zero = has_zero || shape[i] == 0;
  }
  const bool literal = has_zero && free_axis < 0 && input.elements() == 0;
  if (!has_zero || literal) {
    if (free_axis >= 0) FillFreeAxis(input, wanted, free_axis, &shape);
    return shape;
  }
  // Axes that are copied say nothing about the free one, so they are left out on both sides.
  Shape rest, rest_input;
  int rest_free = -1;
  for (int i = 0; i < std::max(shape.rank(), input.rank()); ++i) {
    const bool copied = i < shape.rank() && shape[i] == 0;
    if (copied && i >= input.rank()) ThrowShape(input, wanted);
    if (copied) {
      shape[i] = input[i];
      continue;
    }
    if (i == free_axis) rest_free = rest.rank();
    if (i < shape.rank()) rest.Append(shape[i]);
    if (i < input.rank()) rest_input.Append(input[i]);
  }
  if (free_axis >= 0) {
    FillFreeAxis(rest_input, wanted, rest_free, &rest);
    shape[free_axis] = rest[rest_free];
  }
  return shape;
}

class ReshapeLayer final : public StridedLayer {
 public:
  explicit ReshapeLayer(const LayerInit& init) : StridedLayer(init), shape_(init.Arg("shape")) {
    DropExtra(init);
  }

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    return {Reshaped(input, ResolveShape(input, repaired_.IsNone() ? args[shape_] : repaired_))};
  }

 private:
  /// pnnx may write extents that it inferred and factors of them once more behind them; the rank of
  /// the traced result tells.
  void DropExtra(const LayerInit& init) {
    const Value& wanted = init.Constant("shape");
    if (!wanted.IsList() || init.outputs().empty() || !init.outputs()[0]->has_shape) return;
    Value::List list = wanted.AsList();
    const Shape& traced = init.outputs()[0]->shape;
    if (list.size() <= static_cast<size_t>(traced.rank())) return;
    for (int i = 0; i < traced.rank(); ++i) {
      const Value& extent = list[static_cast<size_t>(i)];
      if (!extent.IsInt() || extent.AsInt() != traced[i]) return;
    }
    list.resize(static_cast<size_t>(traced.rank()));
    repaired_ = Value(std::move(list));
    LogRepair(init, "took shape=" + wanted.ToString() + " for " + repaired_.ToString());
  }

  int shape_;
  Value repaired_;
};

class ReshapeAsLayer final : public StridedLayer {
 public:
  explicit ReshapeAsLayer(const LayerInit& init) : StridedLayer(init), other_(init.Arg("other")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    return {Reshaped(input_shape(args), args.shape(other_))};
  }

 private:
  int other_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(reshape) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.reshape", "Tensor.view", "torch.reshape"},
                              "The same elements under another shape; -1 takes what is left, 0 "
                              "keeps the extent of the input")
                   .Tensor("input", kAllDTypes)
                   .Ints("shape")
                   .Nullable()
                   .Dynamic()
                   .KeepsDType()
                   .F16OnCpu(),
               Create<ReshapeLayer>());
  registry.Add(OperatorSchema({"Tensor.reshape_as", "Tensor.view_as", "aten::view_as"},
                              "The same elements under the shape of `other`")
                   .Tensor("input", kAllDTypes)
                   .Tensor("other", kAllDTypes),
               Create<ReshapeAsLayer>());
}
