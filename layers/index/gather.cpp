// SPDX-License-Identifier: MIT
#include <algorithm>

#include "layers/index/device_index.h"
#include "layers/index/index_plan.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// A scalar counts as a vector of one.
Shape AsVector(const Shape& shape) { return shape.rank() == 0 ? Shape{1} : shape; }

/// What gather asks of its index: the rank of x, and no more than x along the axes
/// other than `dim`.
void CheckIndexShape(const Shape& tensor, const Shape& indices, int dim) {
  const Shape x = AsVector(tensor), index = AsVector(indices);
  bool fits = x.rank() == index.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    fits = i == dim || index[i] <= x[i] || index.elements() == 0;
  }
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                "an index " + indices.ToString() + " does not fit shape " + tensor.ToString());
  }
}

/// What the operators below share: x, an axis of it, and a tensor of indices along that axis.
class AxisIndexLayer : public Layer {
 public:
  explicit AxisIndexLayer(const LayerInit& init)
      : input_(init.Arg("input")), dim_(init.Arg("dim")), index_(init.Arg("index")) {}

 protected:
  const Tensor& input(const Args& args) const { return args.tensor(input_); }
  const Tensor& index(const Args& args) const { return args.tensor(index_); }
  bool IsKnown(const Args& args) const { return args[dim_].IsConcrete(); }
  int Axis(const Args& args) const { return NormalizeAxis(args[dim_].AsInt(), input(args).rank()); }

 private:
  int input_, dim_, index_;
};

class GatherLayer final : public AxisIndexLayer {
 public:
  using AxisIndexLayer::AxisIndexLayer;

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (!IsKnown(args)) return {Value::Deferred()};
    CheckIndexShape(input(args).shape(), index(args).shape(), Axis(args));
    return {Tensor::Meta(input(args).dtype(), index(args).shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = input(args);
    Tensor& output = OutputTensor(outputs[0], x.dtype(), index(args).shape());
    if (context.stream() != nullptr) {
      return GatherOnDevice(*context.stream(), x, index(args), Axis(args), output);
    }
    GatherElements(context, x, index(args), Axis(args), output);
  }
};

class IndexSelectLayer final : public AxisIndexLayer {
 public:
  using AxisIndexLayer::AxisIndexLayer;

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (!IsKnown(args)) return {Value::Deferred()};
    return {Tensor::Meta(input(args).dtype(), ResultShape(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = input(args);
    Tensor& output = OutputTensor(outputs[0], x.dtype(), ResultShape(args));
    if (context.stream() != nullptr) {
      return SelectOnDevice(*context.stream(), x, index(args), Axis(args), output);
    }
    const IndexPlan plan = PlanSelect(AsVector(x.shape()), Axis(args), ReadIndices(index(args)));
    CopyIndexed(context, ItemSize(x.dtype()), x.raw(), plan, output.raw());
  }

 private:
  Shape ResultShape(const Args& args) const {
    const Shape& indices = index(args).shape();
    Shape shape = input(args).shape();
    if (indices.rank() > 1 || (shape.rank() == 0 && indices.elements() != 1)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "an index " + indices.ToString() + " does not fit shape " + shape.ToString());
    }
    const int dim = Axis(args);
    if (shape.rank() > 0) shape[dim] = indices.elements();
    return shape;
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(gather) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"torch.gather"}, "output[i][j] = input[index[i][j]][j] for dim 0, and so on")
          .Tensor("input", kAllDTypes)
          .Int("dim")
          .Dynamic()
          .Tensor("index", kIndexTypes)
          .Ignored("sparse_grad"),
      Create<GatherLayer>());
  registry.Add(OperatorSchema({"torch.index_select"}, "The slices of `dim` that `index` names")
                   .Tensor("input", kAllDTypes)
                   .Int("dim")
                   .Dynamic()
                   .Tensor("index", kIndexTypes),
               Create<IndexSelectLayer>());
}
