// SPDX-License-Identifier: MIT
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class FlipLayer final : public StridedLayer {
 public:
  explicit FlipLayer(const LayerInit& init) : StridedLayer(init), dims_(init.Arg("dims")) {}

 protected:
  std::vector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const std::vector<int> axes = NormalizeAxes(args[dims_], input.rank());
    Strided view(input);
    if (input.rank() == 0) return {view};
    for (int axis : axes) view = view.Flipped(axis);
    return {view};
  }

 private:
  int dims_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(flip) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.flip"}, "Reverses the order of the elements along `dims`")
                   .Tensor("input", kAllDTypes)
                   .Ints("dims")
                   .Nullable(),
               Create<FlipLayer>());
}
