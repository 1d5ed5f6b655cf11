// SPDX-License-Identifier: MIT
#include <algorithm>

#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class SqueezeLayer final : public StridedLayer {
 public:
  explicit SqueezeLayer(const LayerInit& init) : StridedLayer(init), dim_(init.Arg("dim")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const ScratchVector<int> axes = NormalizeAxes(args[dim_], input.rank());
    Shape shape;
    for (int i = 0; i < input.rank(); ++i) {
      const bool named = !args.Has(dim_) || std::find(axes.begin(), axes.end(), i) != axes.end();
      if (!named || input[i] != 1) shape.Append(input[i]);
    }
    return {Reshaped(input, shape)};
  }

 private:
  int dim_;
};

class UnsqueezeLayer final : public StridedLayer {
 public:
  explicit UnsqueezeLayer(const LayerInit& init) : StridedLayer(init), dim_(init.Arg("dim")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    // Several axes (as ONNX has them) count in the result, so they go in from left to right.
    const int rank = input.rank() + static_cast<int>(args[dim_].AsInts().size());
    ScratchVector<int> axes = NormalizeAxes(args[dim_], rank);
    std::sort(axes.begin(), axes.end());
    Shape shape = input;
    for (int axis : axes) shape.Insert(axis, 1);
    return {Reshaped(input, shape)};
  }

 private:
  int dim_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(squeeze) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"torch.squeeze"}, "Drops the axes `dim` (all, if absent) of extent 1")
          .Tensor("input", kAllDTypes)
          .Ints("dim")
          .Nullable()
          .KeepsDType()
          .F16OnCpu(),
      Create<SqueezeLayer>());
  registry.Add(OperatorSchema({"torch.unsqueeze"}, "Inserts axes of extent 1 at `dim`")
                   .Tensor("input", kAllDTypes)
                   .Ints("dim")
                   .KeepsDType()
                   .F16OnCpu(),
               Create<UnsqueezeLayer>());
}
