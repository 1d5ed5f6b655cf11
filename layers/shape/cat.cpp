// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/checked.h"
#include "layers/nhwc_role.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// Joins its inputs along an axis that they have (torch.cat) or along a new one (torch.stack).
class JoinLayer : public Layer {
 public:
  explicit JoinLayer(const LayerInit& init) : dim_(init.Arg("dim")) {
    if (init.device().type == DeviceType::kCpu) return;
    for (const Operand* input : init.inputs()) {
      if (input->dtype == init.inputs()[0]->dtype) continue;
      throw Error(ErrorCode::kUnsupported, "joins tensors of several dtypes");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const auto deferred = [](const Value* value) { return !IsKnown(*value); };
    if (!args[dim_].IsConcrete() ||
        std::any_of(args.variadic().begin(), args.variadic().end(), deferred)) {
      return {Value::Deferred()};
    }
    const Join join = Plan(args);
    return {Tensor::Meta(join.dtype, join.shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Join join = Plan(args);
    Tensor& output = OutputTensor(outputs[0], join.dtype, join.shape);
    const Strided whole(join.shape);
    int64_t at = 0;
    for (const Tensor* part : join.parts) {
      const Tensor converted = Converted(context, *part, join.dtype);
      const Shape shape = PartShape(part->shape(), join.axis);
      CopyStrided(context, ItemSize(join.dtype), converted.raw(), Strided(shape), output.raw(),
                  whole.Sliced(join.axis, at, shape[join.axis]));
      at += shape[join.axis];
    }
  }

  /// On the GPU tensors of several dtypes are refused before.
  static Tensor Converted(const Context& context, const Tensor& part, DType dtype) {
    if (context.stream() == nullptr || part.dtype() == dtype) return part.To(dtype);
    throw Error(ErrorCode::kUnsupported, "joins tensors of several dtypes on the GPU");
  }

  /// What is joined with nothing stays where it is.
  std::vector<Reuse> Reuses(const Args& args) const override {
    const Join join = Plan(args);
    if (join.parts.size() != 1 || join.parts.front()->dtype() != join.dtype) return {};
    for (size_t i = 0; i < args.variadic().size(); ++i) {
      const Value& value = *args.variadic()[i];
      if (!value.IsTensor() || &value.AsTensor() != join.parts.front()) continue;
      return {{Reuse::kView, args.size() + static_cast<int>(i), 0, 0}};
    }
    return {};
  }

 protected:
  struct Join {
    DType dtype = DType::kNull;
    Shape shape;
    int axis = 0;
    ScratchVector<const Tensor*> parts;
  };

  /// Whether this input takes part; all of them decide the dtype.
  virtual bool Counts(const Shape&) const { return true; }
  /// The axis in the result.
  virtual int ResultAxis(int64_t dim, int rank) const = 0;
  /// The shape of a part with the axis along which it is joined.
  virtual Shape PartShape(const Shape& part, int axis) const = 0;

 private:
  /// The inputs are tensors, or (in leftover graphs) lists of them.
  static bool IsKnown(const Value& value) {
    if (value.IsDeferred()) return false;
    if (!value.IsList()) return true;
    return std::all_of(value.AsList().begin(), value.AsList().end(), IsKnown);
  }

  static void Collect(const Value& value, ScratchVector<const Tensor*>* tensors) {
    if (value.IsList()) {
      for (const Value& item : value.AsList()) Collect(item, tensors);
    } else {
      tensors->push_back(&value.AsTensor());
    }
  }

  Join Plan(const Args& args) const {
    ScratchVector<const Tensor*> tensors;
    for (const Value* value : args.variadic()) Collect(*value, &tensors);
    if (tensors.empty()) throw Error(ErrorCode::kInvalidArgument, "expected at least one tensor");
    Join join;
    join.dtype = tensors.front()->dtype();
    for (const Tensor* tensor : tensors) {
      if (tensor->dtype() != join.dtype) join.dtype = PromoteTypes(join.dtype, tensor->dtype());
      if (Counts(tensor->shape())) join.parts.push_back(tensor);
    }
    if (join.parts.empty()) join.parts.push_back(tensors.front());
    const Shape& first = join.parts.front()->shape();
    join.axis = ResultAxis(args[dim_].AsInt(), first.rank());
    join.shape = PartShape(first, join.axis);
    join.shape[join.axis] = 0;
    for (const Tensor* part : join.parts) Extend(PartShape(part->shape(), join.axis), &join);
    return join;
  }

  static void Extend(const Shape& part, Join* join) {
    Shape expected = join->shape;
    if (part.rank() == expected.rank()) expected[join->axis] = part[join->axis];
    if (!(part == expected)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "shapes " + join->parts.front()->shape().ToString() + " and " + part.ToString() +
                      " do not join along axis " + std::to_string(join->axis));
    }
    join->shape[join->axis] = CheckedAdd(join->shape[join->axis], part[join->axis]);
  }

  int dim_;
};

class CatLayer final : public JoinLayer {
 public:
  using JoinLayer::JoinLayer;

 protected:
  // torch ignores tensors of shape (0), whatever the rank of the others.
  bool Counts(const Shape& shape) const override { return !(shape == Shape{0}); }
  int ResultAxis(int64_t dim, int rank) const override {
    if (rank == 0) throw Error(ErrorCode::kInvalidArgument, "scalars cannot be concatenated");
    return NormalizeAxis(dim, rank);
  }
  Shape PartShape(const Shape& part, int) const override { return part; }
};

class StackLayer final : public JoinLayer {
 public:
  using JoinLayer::JoinLayer;

 protected:
  int ResultAxis(int64_t dim, int rank) const override { return NormalizeAxis(dim, rank + 1); }
  Shape PartShape(const Shape& part, int axis) const override {
    Shape shape = part;
    shape.Insert(std::min(axis, part.rank()), 1);
    return shape;
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(cat) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.cat"}, "Joins tensors along an axis that they have")
                   .Tensors("tensors", kAllDTypes)
                   .Int("dim", 0)
                   .Dynamic()
                   .KeepsDType()
                   .F16OnCpu()
                   .HasNhwcForm("nhwc.cat", FollowsAlongKnownAxis),
               Create<CatLayer>());
  registry.Add(OperatorSchema({"torch.stack"}, "Joins tensors along a new axis")
                   .Tensors("tensors", kAllDTypes)
                   .Int("dim", 0)
                   .Dynamic()
                   .KeepsDType(),
               Create<StackLayer>());
}
