// SPDX-License-Identifier: MIT
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class FlipLayer final : public StridedLayer {
 public:
  explicit FlipLayer(const LayerInit& init) : StridedLayer(init), dims_(init.Arg("dims")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const ScratchVector<int> axes = NormalizeAxes(args[dims_], input.rank());
    Strided view(input);
    if (input.rank() == 0) return {view};
    for (int axis : axes) view = view.Flipped(axis);
    return {view};
  }

 private:
  int dims_;
};

/// fliplr and flipud: one axis that the operator fixes.
class FlipAxisLayer final : public StridedLayer {
 public:
  FlipAxisLayer(const LayerInit& init, int axis) : StridedLayer(init), axis_(axis) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    if (input.rank() <= axis_) {
      throw Error(ErrorCode::kInvalidArgument, "expected a rank of at least " +
                                                   std::to_string(axis_ + 1) + ", got shape " +
                                                   input.ToString());
    }
    return {Strided(input).Flipped(axis_)};
  }

 private:
  int axis_;
};

/// Turns the plane of two axes by a quarter, k times, from the first towards the second.
class Rot90Layer final : public StridedLayer {
 public:
  explicit Rot90Layer(const LayerInit& init)
      : StridedLayer(init), k_(init.Arg("k")), dims_(init.Arg("dims")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const ScratchVector<int> axes = NormalizeAxes(args[dims_], input.rank());
    if (axes.size() != 2 || input.rank() < 2) {
      throw Error(ErrorCode::kInvalidArgument, "expected two axes of a shape, got " +
                                                   args[dims_].ToString() + " of " +
                                                   input.ToString());
    }
    const Strided view(input);
    switch (((args[k_].AsInt() % 4) + 4) % 4) {
      case 1: return {view.Flipped(axes[1]).Swapped(axes[0], axes[1])};
      case 2: return {view.Flipped(axes[0]).Flipped(axes[1])};
      case 3: return {view.Flipped(axes[0]).Swapped(axes[0], axes[1])};
      default: return {view};
    }
  }

 private:
  int k_, dims_;
};

LayerCreator CreateFlipAxis(int axis) {
  return [axis](const LayerInit& init) { return std::make_unique<FlipAxisLayer>(init, axis); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(flip) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.flip", "aten::flip"},
                              "Reverses the order of the elements along `dims`")
                   .Tensor("input", kAllDTypes)
                   .Ints("dims")
                   .Nullable(),
               Create<FlipLayer>());
  registry.Add(OperatorSchema({"aten::fliplr"}, "Reverses the order along axis 1")
                   .Tensor("input", kAllDTypes),
               CreateFlipAxis(1));
  registry.Add(OperatorSchema({"aten::flipud"}, "Reverses the order along axis 0")
                   .Tensor("input", kAllDTypes),
               CreateFlipAxis(0));
  registry.Add(OperatorSchema({"aten::rot90"}, "Turns the plane of two axes by a quarter, k times")
                   .Tensor("input", kAllDTypes)
                   .Int("k", 1)
                   .Dynamic()
                   .Ints("dims", 2, Value(Value::List{0, 1})),
               Create<Rot90Layer>());
}
