// SPDX-License-Identifier: MIT
// Linear operators whose weights are bytes in the file, and whose inputs become bytes row by row
// while the network runs: no samples are needed beforehand.
#include "layers/epilogue.h"
#include "layers/quantize/dynamic_product.h"

namespace oort {
namespace {

int64_t CountRows(const Shape& shape) { return shape.Product(0, shape.rank() - 1); }

void RequireRows(const Shape& shape) {
  if (shape.rank() > 0) return;
  throw Error(ErrorCode::kInvalidArgument, "expected rows along the last axis, got a scalar");
}

class DynamicQuantizeLayer final : public Layer {
 public:
  explicit DynamicQuantizeLayer(const LayerInit& init)
      : kernels_(DynamicKernelsFor(init.isa())), symmetric_(init.Bool("symmetric")) {}

  std::vector<Value> Infer(const Args& args) const override {
    RequireRows(args.shape(0));
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    if (input.elements() == 0) return;
    const int64_t rows = CountRows(input.shape()), width = input.elements() / rows;
    float* y = outputs[0].AsTensor().data<float>();
    context.ParallelFor(rows, 16384 / width + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* x = input.data<float>() + i * width;
        const RowQuantizer row = QuantizerOfRow(kernels_.range(x, width), symmetric_);
        kernels_.round(x, width, 1 / row.scale, row.scale,
                       static_cast<float>(row.least - row.zero_point),
                       static_cast<float>(row.most - row.zero_point), y + i * width);
      }
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  const DynamicKernels& kernels_;
  bool symmetric_;
};

class DynamicLinearLayer final : public Layer {
 public:
  explicit DynamicLinearLayer(const LayerInit& init)
      : weight_(init.Arg("@weight")),
        product_(init.isa(), init.Constant("@weight").AsTensor(),
                 init.Constant("@scales").AsTensor(), init.Bool("symmetric")),
        activation_(ReadActivation(init)) {
    const Value& bias = init.Constant("@bias");
    if (bias.IsNone()) return;
    bias_ = bias.AsTensor();
    if (bias_.shape() == Shape{product_.out()}) return;
    throw Error(ErrorCode::kInvalidModel, "expected a bias for each of " +
                                              std::to_string(product_.out()) + " outputs, got " +
                                              bias_.shape().ToString());
  }

  std::vector<Value> Infer(const Args& args) const override {
    Shape shape = args.shape(0);
    RequireRows(shape);
    if (shape[shape.rank() - 1] != product_.in()) {
      throw Error(ErrorCode::kInvalidArgument, "expected rows of " + std::to_string(product_.in()) +
                                                   " elements, got " + shape.ToString());
    }
    shape[shape.rank() - 1] = product_.out();
    return {Tensor::Meta(DType::kF32, shape)};
  }

  size_t Workspace(const Args& args, int) const override {
    return product_.Workspace(CountRows(args.shape(0)), false);
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    product_.Run(context.threads(), CountRows(args.shape(0)),
                 {args.tensor(0).data<float>(), product_.in()},
                 bias_.defined() ? bias_.data<float>() : nullptr,
                 {output.data<float>(), product_.out()}, context.workspace(), activation_);
  }

  bool Packs(int argument) const override { return argument == weight_; }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * product_.multiplications(CountRows(args.shape(0)));
    return cost;
  }

 private:
  int weight_;
  DynamicProduct product_;
  ActivationSpec activation_;
  Tensor bias_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(dynamic_linear) {
  using namespace oort;
  registry.Add(OperatorSchema({"oort.DynamicQuantize"},
                              "What is left of each row along the last axis when it is held in 8 "
                              "bits with a scale of its own: from 0 to 255 with a zero point or, "
                              "where it is symmetric, from -127 to 127")
                   .Tensor("input", kF32Only)
                   .Bool("symmetric", false),
               Create<DynamicQuantizeLayer>());
  OperatorSchema linear({"oort.DynamicLinear"},
                        "nn.Linear of weights of bytes with rows that oort.DynamicQuantize would "
                        "give, summed in 32 bits, through an activation. Made by passes");
  linear.Tensor("input", kF32Only)
      .Attribute("weight", DTypeSet(DType::kI8))
      .Attribute("scales", kF32Only)
      .OptionalAttribute("bias", kF32Only)
      .Bool("symmetric", false);
  AddEpilogueParams(linear);
  registry.Add(std::move(linear), Create<DynamicLinearLayer>());
}
