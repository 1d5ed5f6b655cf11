// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/conv_padding.h"
#include "layers/convolution/planar/conv_algorithms.h"
#include "layers/convolution/planar/conv_plain.h"
#include "layers/precision_param.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

class Conv final : public Layer {
 public:
  Conv(const LayerInit& init, int spatial_rank)
      : params_(init, spatial_rank, false),
        input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        mode_(ConvPadMode(init)),
        wanted_(ReadConvAlgorithm(init)) {
    CheckBiasFlag(init);
    const Tensor& weight = weight_.constant();
    if (weight.defined()) params_.CheckWeight(init, weight.shape());
    bool reads = false;
    for (const PlanarConvAlgorithm* algorithm : PlanarConvAlgorithms()) {
      prepared_.push_back(
          algorithm->Prepare(init.isa(), GemmKernelsFor(init), weight, params_.groups()));
      reads = reads || prepared_.back()->ReadsWeight();
    }
    if (!reads) weight_.Forget();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const ConvGeometry g = Geometry(args);
    bias_.CheckShape(args, {g.out_channels});
    if (IsPadded()) PaddedShape(args, g);  // throws where there is not enough to take from
    return {Tensor::Meta(DType::kF32, g.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const Tensor& input = args.tensor(input_);
    PlanarOperands operands = {input.data<float>(), weight_.data(args), bias_.data(args),
                               output.data<float>()};
    if (!IsPadded()) return prepared_[Chosen(g)]->Run(context, g, operands);
    Tensor padded = Tensor::Borrow(context.workspace<float>(), PaddedShape(args, g));
    PadCopy(context, input, ConvPadding(g, mode_, input.rank()), Value(0), padded);
    operands.image = padded.data<float>();
    g = Unpadded(g);
    const PreparedPlanarConv& conv = *prepared_[Chosen(g)];
    const std::span<std::byte> rest(context.workspace() + PaddedBytes(padded.shape()),
                                    conv.Scratch(g, context.threads()));
    conv.Run(Context(context.threads(), rest), g, operands);
  }

  size_t Workspace(const Args& args, int threads) const override {
    ConvGeometry g = Geometry(args);
    size_t bytes = 0;
    if (IsPadded()) {
      bytes = PaddedBytes(PaddedShape(args, g));
      g = Unpadded(g);
    }
    return CheckedAdd(bytes, prepared_[Chosen(g)]->Scratch(g, threads));
  }

  bool Packs(int argument) const override { return weight_.Packed(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const ConvGeometry g = Geometry(args);
    cost.flops = 2 * g.multiplications();
    cost.algorithm = PlanarConvAlgorithms()[Chosen(IsPadded() ? Unpadded(g) : g)]->name();
    return cost;
  }

 private:
  ConvGeometry Geometry(const Args& args) const {
    return params_.Geometry(args.shape(input_), weight_.shape(args));
  }
  size_t Chosen(const ConvGeometry& g) const {
    return ChooseConv(PlanarConvAlgorithms(), g, wanted_);
  }

  /// With something else than zeros, which algorithms know themselves: that is done first.
  bool IsPadded() const { return mode_ != PadMode::kConstant; }
  Shape PaddedShape(const Args& args, const ConvGeometry& g) const {
    return ConvPadding(g, mode_, args.shape(input_).rank()).Apply(args.shape(input_));
  }
  static size_t PaddedBytes(const Shape& padded) {
    return AlignUp(CheckedMultiply(static_cast<size_t>(padded.elements()), sizeof(float)), 64);
  }

  ConvParams params_;
  int input_;
  WeightArg weight_, bias_;
  PadMode mode_;
  std::string wanted_;  // algorithm, or empty
  std::vector<std::unique_ptr<PreparedPlanarConv>>
      prepared_;  // as the algorithms stand in the list
};

}  // namespace
}  // namespace oort

OORT_LAYERS(conv) {
  for (int rank = 1; rank <= 3; ++rank) {
    const auto create = [rank](const LayerInit& init) {
      return std::make_unique<Conv>(init, rank);
    };
    for (OperatorSchema schema : {ConvModuleSchema(rank, false), ConvFunctionSchema(rank, false)}) {
      AddPrecisionParam(schema);
      AddConvAlgorithmParam(schema);
      registry.Add(schema, WithFloats(schema, create, CreateConvPlain(rank)));
    }
  }
}
