// SPDX-License-Identifier: MIT
#include "cuda/memory.h"
#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

/// leaky_relu whose slope is one number or one for each channel of axis 1.
class PreluLayer final : public Layer {
 public:
  explicit PreluLayer(const LayerInit& init)
      : engine_(expression::Function::kLeakyRelu, init.isa()),
        input_(init.Arg("input")),
        weight_(init.Arg("weight")) {
    const Value& weight = init.Constant("weight");
    if (init.device().type != DeviceType::kCpu && weight.IsTensor()) {
      uploaded_ = cuda::ToDevice(weight.AsTensor(), init.device());
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& weight = args.tensor(weight_);
    const Shape& shape = args.shape(input_);
    const int64_t channels = shape.rank() > 1 ? shape[1] : 1;
    if (weight.rank() > 1 || (weight.elements() != 1 && weight.elements() != channels)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a weight for each of " + std::to_string(channels) +
                      " channels, got shape " + weight.shape().ToString());
    }
    return {Tensor::Meta(args.tensor(input_).dtype(), shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    // (C) against (N,C,H,W): as (C,1,1) it broadcasts along axis 1.
    const Tensor& weight = uploaded_.defined() ? uploaded_ : args.tensor(weight_);
    Shape shape;
    if (weight.elements() != 1) {
      shape.Append(weight.elements());
      for (int axis = 2; axis < args.tensor(input_).rank(); ++axis) shape.Append(1);
    }
    const Value slope = weight.Reshaped(shape);
    const std::array<const Value*, 2> operands = {&args[input_], &slope};
    engine_.Forward(context, operands, outputs[0]);
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, input_}}; }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = static_cast<double>(args.tensor(input_).elements());
    return cost;
  }

 private:
  expression::Engine engine_;
  int input_;
  int weight_;
  Tensor uploaded_;  // the weight on the GPU, where the layer is there
};

}  // namespace
}  // namespace oort

OORT_LAYERS(prelu) {
  using namespace oort;
  const char* doc = "x if x > 0 else weight * x, with a weight for each channel of axis 1";
  registry.Add(OperatorSchema({"nn.PReLU"}, doc)
                   .Tensor("input", kFloats)
                   .Attribute("weight")
                   .Ignored("num_parameters"),
               Create<PreluLayer>());
  registry.Add(OperatorSchema({"F.prelu", "torch.prelu"}, doc)
                   .Tensor("input", kFloats)
                   .Tensor("weight", kFloats),
               Create<PreluLayer>());
}

OORT_CUDA_LAYERS(prelu) { registry.AddDevice({"nn.PReLU"}, oort::DeviceType::kCuda); }
