// SPDX-License-Identifier: MIT
// Operators that bring several tensors to one shape, or to one rank, before they are joined.
#include <algorithm>

#include "core/checked.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

void CollectTensors(const Value& value, std::vector<const Tensor*>* tensors, bool* known) {
  if (value.IsList()) {
    for (const Value& item : value.AsList()) CollectTensors(item, tensors, known);
  } else if (value.IsDeferred()) {
    *known = false;
  } else {
    tensors->push_back(&value.AsTensor());
  }
}

/// The tensors of the first argument, which is a list; none where one is not known yet.
std::vector<const Tensor*> TensorsOf(const Args& args) {
  std::vector<const Tensor*> tensors;
  bool known = true;
  CollectTensors(args[0], &tensors, &known);
  if (!known) return {};
  if (tensors.empty()) throw Error(ErrorCode::kInvalidArgument, "expected at least one tensor");
  return tensors;
}

/// Gives a list: each tensor repeated to a common shape.
class RepeatEachLayer : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    const std::vector<const Tensor*> tensors = TensorsOf(args);
    if (tensors.empty()) return {Value::Deferred()};
    Value::List metas;
    for (size_t i = 0; i < tensors.size(); ++i) {
      metas.emplace_back(Tensor::Meta(tensors[i]->dtype(), ViewOf(tensors, i).shape()));
    }
    return {Value(std::move(metas))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const std::vector<const Tensor*> tensors = TensorsOf(args);
    Value::List results;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Strided view = ViewOf(tensors, i);
      Tensor result(tensors[i]->dtype(), view.shape());
      CopyStrided(context, ItemSize(result.dtype()), tensors[i]->raw(), view, result.raw());
      results.emplace_back(std::move(result));
    }
    outputs[0] = Value(std::move(results));
  }

 protected:
  virtual Strided ViewOf(const std::vector<const Tensor*>& tensors, size_t index) const = 0;
};

class BroadcastTensorsLayer final : public RepeatEachLayer {
 public:
  explicit BroadcastTensorsLayer(const LayerInit&) {}

 protected:
  Strided ViewOf(const std::vector<const Tensor*>& tensors, size_t index) const override {
    Shape shape;
    for (const Tensor* tensor : tensors) shape = BroadcastShapes(shape, tensor->shape());
    shape.elements();
    return Strided(tensors[index]->shape()).Broadcast(shape);
  }
};

/// Coordinates of a grid: tensor i varies along axis i only.
class MeshgridLayer final : public RepeatEachLayer {
 public:
  explicit MeshgridLayer(const LayerInit& init) : swap_(init.String("indexing") == "xy") {}

 protected:
  Strided ViewOf(const std::vector<const Tensor*>& tensors, size_t index) const override {
    Shape shape, own;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i]->rank() > 1) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected vectors, got shape " + tensors[i]->shape().ToString());
      }
      shape.Append(tensors[i]->elements());
      own.Append(i == index ? tensors[i]->elements() : 1);
    }
    shape.elements();
    const Strided view = Strided(own).Broadcast(shape);
    return swap_ && shape.rank() >= 2 ? view.Swapped(0, 1) : view;
  }

 private:
  bool swap_;
};

/// All pairs (triples, …) with one element of each vector; one vector stays as it is.
class CartesianProductLayer final : public Layer {
 public:
  explicit CartesianProductLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    const std::vector<const Tensor*> tensors = TensorsOf(args);
    if (tensors.empty()) return {Value::Deferred()};
    return {Tensor::Meta(tensors[0]->dtype(), ResultShape(tensors))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const std::vector<const Tensor*> tensors = TensorsOf(args);
    Tensor& output = OutputTensor(outputs[0], tensors[0]->dtype(), ResultShape(tensors));
    Shape grid;
    for (const Tensor* tensor : tensors) grid.Append(tensor->elements());
    Shape table = grid;
    table.Append(static_cast<int64_t>(tensors.size()));
    const Strided whole(table);
    for (int i = 0; i < grid.rank(); ++i) {
      const Tensor& tensor = *tensors[static_cast<size_t>(i)];
      Shape own = grid;
      for (int axis = 0; axis < grid.rank(); ++axis) own[axis] = axis == i ? grid[i] : 1;
      CopyStrided(context, ItemSize(tensor.dtype()), tensor.raw(), Strided(own).Broadcast(grid),
                  output.raw(), whole.Selected(grid.rank(), i));
    }
  }

 private:
  static Shape ResultShape(const std::vector<const Tensor*>& tensors) {
    int64_t count = 1;
    for (const Tensor* tensor : tensors) {
      if (tensor->rank() != 1 || tensor->dtype() != tensors[0]->dtype() ||
          tensors.size() >= Shape::kMaxRank) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected less than " + std::to_string(Shape::kMaxRank) +
                        " vectors of one dtype, got " + tensor->ToString());
      }
      count = CheckedMultiply(count, tensor->elements());
    }
    if (tensors.size() == 1) return {count};
    return {count, static_cast<int64_t>(tensors.size())};
  }
};

/// hstack and its relatives: raises the rank of each tensor, then joins them along an axis.
class StackEachLayer final : public Layer {
 public:
  enum Kind { kHorizontal, kVertical, kDeep, kColumns };
  explicit StackEachLayer(Kind kind) : kind_(kind) {}

  std::vector<Value> Infer(const Args& args) const override {
    const std::vector<const Tensor*> tensors = TensorsOf(args);
    if (tensors.empty()) return {Value::Deferred()};
    const Plan plan = PlanOf(tensors);
    return {Tensor::Meta(plan.dtype, plan.shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const std::vector<const Tensor*> tensors = TensorsOf(args);
    const Plan plan = PlanOf(tensors);
    Tensor& output = OutputTensor(outputs[0], plan.dtype, plan.shape);
    int64_t at = 0;
    for (const Tensor* tensor : tensors) {
      const Shape shape = Raised(tensor->shape());
      const Tensor part = tensor->To(plan.dtype);
      CopyStrided(context, ItemSize(plan.dtype), part.raw(), Strided(shape), output.raw(),
                  Strided(plan.shape).Sliced(plan.axis, at, shape[plan.axis]));
      at += shape[plan.axis];
    }
  }

 private:
  struct Plan {
    DType dtype;
    Shape shape;
    int axis;
  };

  Shape Raised(Shape shape) const {
    if (shape.rank() == 0) shape.Append(1);
    if (kind_ == kHorizontal || shape.rank() > 2) return shape;
    if (shape.rank() == 1) shape.Insert(kind_ == kColumns ? 1 : 0, 1);
    if (kind_ == kDeep) shape.Append(1);
    return shape;
  }

  Plan PlanOf(const std::vector<const Tensor*>& tensors) const {
    Plan plan{tensors[0]->dtype(), Raised(tensors[0]->shape()), 0};
    plan.axis = kind_ == kVertical                               ? 0
                : kind_ == kDeep                                 ? 2
                : kind_ == kHorizontal && plan.shape.rank() == 1 ? 0
                                                                 : 1;
    const Shape first = plan.shape;
    plan.shape[plan.axis] = 0;
    for (const Tensor* tensor : tensors) {
      if (tensor->dtype() != plan.dtype) plan.dtype = PromoteTypes(plan.dtype, tensor->dtype());
      Shape part = Raised(tensor->shape());
      if (part.rank() == first.rank()) {
        plan.shape[plan.axis] = CheckedAdd(plan.shape[plan.axis], part[plan.axis]);
        part[plan.axis] = first[plan.axis];
      }
      if (!(part == first)) {
        throw Error(ErrorCode::kInvalidArgument, "shapes " + tensors[0]->shape().ToString() +
                                                     " and " + tensor->shape().ToString() +
                                                     " do not join");
      }
    }
    return plan;
  }

  Kind kind_;
};

LayerCreator CreateStackEach(StackEachLayer::Kind kind) {
  return [kind](const LayerInit&) { return std::make_unique<StackEachLayer>(kind); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(grids) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.broadcast_tensors", "aten::broadcast_tensors"},
                              "A list of the tensors, repeated to one shape")
                   .Any("tensors")
                   .Dynamic(),
               Create<BroadcastTensorsLayer>());
  registry.Add(OperatorSchema({"torch.cartesian_prod", "aten::cartesian_prod"},
                              "All choices of one element from each vector")
                   .Any("tensors")
                   .Dynamic(),
               Create<CartesianProductLayer>());
  registry.Add(OperatorSchema({"torch.meshgrid", "aten::meshgrid"},
                              "The coordinates of a grid, a tensor for each vector; `xy` swaps the "
                              "first two axes")
                   .Any("tensors")
                   .Dynamic()
                   .String("indexing", "ij")
                   .OneOf({"ij", "xy"}),
               Create<MeshgridLayer>());
  using Stack = StackEachLayer;
  registry.Add(OperatorSchema({"torch.hstack", "aten::hstack"}, "Joins tensors along axis 1")
                   .Any("tensors")
                   .Dynamic(),
               CreateStackEach(Stack::kHorizontal));
  registry.Add(
      OperatorSchema({"torch.vstack", "aten::vstack", "aten::row_stack"}, "Joins rows along axis 0")
          .Any("tensors")
          .Dynamic(),
      CreateStackEach(Stack::kVertical));
  registry.Add(OperatorSchema({"torch.dstack", "aten::dstack"}, "Joins planes along axis 2")
                   .Any("tensors")
                   .Dynamic(),
               CreateStackEach(Stack::kDeep));
  registry.Add(
      OperatorSchema({"torch.column_stack", "aten::column_stack"}, "Joins columns along axis 1")
          .Any("tensors")
          .Dynamic(),
      CreateStackEach(Stack::kColumns));
}
