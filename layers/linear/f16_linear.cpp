// SPDX-License-Identifier: MIT
// x W^T + b in f16: the rows are the pixels of an image that is one pixel high.
#include "layers/linear/f16_linear.h"

#include "layers/convolution/nhwc/conv_algorithms.h"
#include "layers/epilogue.h"
#include "layers/linear/linear_shapes.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

class F16Linear final : public LinearLayer {
 public:
  explicit F16Linear(const LayerInit& init)
      : LinearLayer(init), addend_(init.Arg("addend")), weight_arg_(init.Arg("@weight")) {
    if (init.Arg("activation") >= 0) activation_ = ReadActivation(init);
    const Tensor weight = ReadWeight<float>(init, "weight");
    if (!weight.defined() || weight.rank() != 2) {
      throw Error(ErrorCode::kUnsupported, "expected a weight of rank 2, stored with the operator");
    }
    const Tensor filters = weight.Reshaped({weight.dim(0), weight.dim(1), 1, 1});
    const Tensor bias = ReadWeight<float>(init, "bias");
    NhwcConvProblem problem;
    problem.isa = init.isa();
    problem.precision = Precision::kF16;
    problem.weight = filters.shape();
    const auto algorithms = NhwcConvAlgorithms<Half>();
    conv_ = algorithms[ChooseConv(algorithms, problem, "")]->Prepare(problem, filters, bias);
  }

  std::vector<Value> Infer(const Args& args) const override {
    std::vector<Value> metas = LinearLayer::Infer(args);
    CheckHalf(args.tensor(input_));
    if (!args.Has(addend_)) return metas;
    CheckHalf(args.tensor(addend_));
    const Shape& output = metas[0].AsTensor().shape();
    if (args.shape(addend_) == output) return metas;
    throw Error(ErrorCode::kInvalidArgument, "expected an addend of shape " + output.ToString() +
                                                 ", got " + args.shape(addend_).ToString());
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const ConvGeometry g = Geometry(args);
    ConvOperandsOf<Half> operands;
    operands.in = args.tensor(input_).data<Half>();
    operands.in_pixel = g.in_channels;
    if (args.Has(addend_)) operands.addend = args.tensor(addend_).data<Half>();
    operands.activation = activation_;
    operands.out = output.data<Half>();
    operands.out_pixel = g.out_channels;
    conv_->Run(context, g, operands);
  }

  size_t Workspace(const Args& args, int threads) const override {
    const ConvGeometry g = Geometry(args);
    return conv_->Scratch(g, g.in_channels, threads, false);
  }

  bool Packs(int argument) const override { return argument == weight_arg_; }

 private:
  static void CheckHalf(const Tensor& tensor) {
    if (tensor.dtype() == DType::kF16) return;
    throw Error(ErrorCode::kInvalidArgument,
                "expected tensors of f16, got dtype " + std::string(Name(tensor.dtype())));
  }

  ConvGeometry Geometry(const Args& args) const {
    const GemmSize size = SizeOf(args);
    ConvGeometry g;
    g.axes[2].in = g.axes[2].out = size.m;
    g.in_channels = size.k;
    g.out_channels = size.n;
    return g;
  }

  int addend_, weight_arg_;
  ActivationSpec activation_;
  std::unique_ptr<PreparedNhwcConv<Half>> conv_;
};

}  // namespace

LayerCreator OrF16Linear(LayerCreator other) {
  return [other = std::move(other), half = Create<F16Linear>()](const LayerInit& init) {
    return (ComputesInF16(init) ? half : other)(init);
  };
}

}  // namespace oort
