// SPDX-License-Identifier: MIT
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

/// The first half along an axis, gated by the second.
class GluLayer final : public Layer {
 public:
  explicit GluLayer(const LayerInit& init)
      : engine_(expression::Parse("mul(@0,sigmoid(@1))"), init.isa()),
        input_(init.Arg("input")),
        dim_(init.Int("dim")) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& input = args.tensor(input_);
    if (input.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "rank 0 has no halves");
    const int axis = NormalizeAxis(dim_, input.rank());
    if (input.shape()[axis] % 2 != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "axis " + std::to_string(axis) + " of " + input.ToString() + " has no halves");
    }
    return {Tensor::Meta(input.dtype(), HalfShape(input.shape(), axis))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const int axis = NormalizeAxis(dim_, input.rank());
    expression::View first(input);
    first.shape = HalfShape(input.shape(), axis);
    expression::View second = first;
    const int64_t distance = first.shape.Product(axis, input.rank());
    second.data += static_cast<size_t>(distance) * ItemSize(input.dtype());
    const Value half = Tensor::Meta(input.dtype(), first.shape);
    const std::array<const Value*, 2> operands = {&half, &half};
    engine_.Forward(context, operands, std::array{first, second}, outputs[0]);
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = static_cast<double>(args.tensor(input_).elements());
    return cost;
  }

 private:
  static Shape HalfShape(Shape shape, int axis) {
    shape[axis] /= 2;
    return shape;
  }

  expression::Engine engine_;
  int input_;
  int64_t dim_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(glu) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"nn.GLU", "F.glu"}, "the first half along dim * sigmoid of the second")
          .Tensor("input", kFloats)
          .Int("dim", -1),
      Create<GluLayer>());
}
