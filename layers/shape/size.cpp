// SPDX-License-Identifier: MIT
#include "oort/layer.h"

namespace oort {
namespace {

/// An extent as an int, or all of them as a list; known as soon as the shape is.
class SizeLayer final : public Layer {
 public:
  explicit SizeLayer(const LayerInit& init) : input_(init.Arg("input")), dim_(init.Arg("dim")) {}

  LayerTraits Traits() const override { return {.shapes_only = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (!args[dim_].IsConcrete()) return {Value::Deferred()};
    return {Size(args)};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = Size(args);
  }

 private:
  Value Size(const Args& args) const {
    const Shape& shape = args.shape(input_);
    if (!args.Has(dim_)) return Value::Ints(shape.dims());
    const int axis = NormalizeAxis(args[dim_].AsInt(), shape.rank());
    if (shape.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "a scalar has no extents");
    return shape[axis];
  }
  int input_, dim_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(size) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.size"}, "The extent of axis `dim`, or a list of all extents")
                   .Tensor("input", kAllDTypes)
                   .Int("dim")
                   .Nullable()
                   .Dynamic(),
               Create<SizeLayer>());
}
