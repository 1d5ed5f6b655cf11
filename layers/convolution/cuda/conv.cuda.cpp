// SPDX-License-Identifier: MIT
// Convolutions of (N, C, …) on the GPU: those that are not part of a NHWC region.
#include "cuda/memory.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/convolution/conv_padding.h"
#include "layers/convolution/cuda/planes_conv.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

cuda::PlaneWalk CudaPlaneWalk(const ConvAxis& axis) {
  return {axis.in, axis.out, axis.kernel, axis.stride, axis.dilation, axis.pad};
}

bool IsCudaConvType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF64;
}

class CudaPlanesConv final : public Layer {
 public:
  CudaPlanesConv(const LayerInit& init, int spatial_rank, bool transposed)
      : params_(init, spatial_rank, transposed),
        transposed_(transposed),
        mode_(transposed ? PadMode::kConstant : ConvPadMode(init)),
        input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias") {
    CheckBiasFlag(init);
    for (const Operand* input : init.inputs()) {
      if (input->dtype == DType::kNull || IsCudaConvType(input->dtype)) continue;
      throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(input->dtype)));
    }
    const DType traced = TracedType(init);
    if (traced != DType::kNull && !IsCudaConvType(traced)) {
      throw Error(ErrorCode::kUnsupported, "convolves " + std::string(Name(traced)));
    }
    weight_data_ = Uploaded(init, "weight");
    bias_data_ = Uploaded(init, "bias");
    if (weight_data_.defined()) params_.CheckWeight(init, weight_data_.shape());
  }

  std::vector<Value> Infer(const Args& args) const override {
    const ConvGeometry g = Geometry(args);
    if (IsPadded()) PaddedShape(args, g);  // throws where there is not enough to take from
    bias_.CheckShape(args, {g.out_channels});
    const DType dtype = args.tensor(input_).dtype();
    for (const Tensor& tensor : {Of(args, weight_, weight_data_), Of(args, bias_, bias_data_)}) {
      if (!IsCudaConvType(dtype) || (tensor.defined() && tensor.dtype() != dtype)) {
        throw Error(ErrorCode::kUnsupported, "no convolution of " + std::string(Name(dtype)) +
                                                 " with weights of " +
                                                 std::string(Name(tensor.dtype())) + " on the GPU");
      }
    }
    return {Tensor::Meta(dtype, g.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    Tensor image = args.tensor(input_);
    if (IsPadded()) {
      Tensor padded = Tensor::Borrow(context.workspace(), image.dtype(), PaddedShape(args, g));
      PadCopy(context, image, ConvPadding(g, mode_, image.rank()), Value(0), padded);
      image = padded;
      g = Unpadded(g);
    }
    const Tensor bias = Of(args, bias_, bias_data_);
    cuda::PlanesConvCall call;
    call.in = image.raw();
    call.weight = Of(args, weight_, weight_data_).raw();
    call.bias = bias.defined() ? bias.raw() : nullptr;
    call.out = output.raw();
    call.batch = g.batch;
    call.groups = g.groups;
    call.group_in = g.group_in();
    call.group_out = g.group_out();
    call.depth = CudaPlaneWalk(g.axes[0]);
    call.height = CudaPlaneWalk(g.axes[1]);
    call.width = CudaPlaneWalk(g.axes[2]);
    call.transposed = transposed_;
    cuda::ConvolvePlanes(*context.stream(), call, output.dtype());
  }

  bool Packs(int argument) const override {
    return (argument == weight_.arg() && weight_data_.defined()) ||
           (argument == bias_.arg() && bias_data_.defined());
  }

  size_t Workspace(const Args& args, int) const override {
    if (!IsPadded()) return 0;
    const auto elements = static_cast<size_t>(PaddedShape(args, Geometry(args)).elements());
    return elements * ItemSize(args.tensor(input_).dtype());
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    cost.algorithm = kConvDirect;
    return cost;
  }

 private:
  bool IsPadded() const { return mode_ != PadMode::kConstant; }
  Shape PaddedShape(const Args& args, const ConvGeometry& g) const {
    return ConvPadding(g, mode_, args.shape(input_).rank()).Apply(args.shape(input_));
  }

  static DType TracedType(const LayerInit& init) {
    return init.inputs().empty() ? DType::kNull : init.inputs()[0]->dtype;
  }

  /// A constant on the device, in what the image was traced as; undefined if it is none.
  static Tensor Uploaded(const LayerInit& init, const std::string& name) {
    const Value& value = init.Constant(init.Arg("@" + name) >= 0 ? "@" + name : name);
    if (!value.IsTensor()) return {};
    const Tensor& tensor = value.AsTensor();
    const DType traced = TracedType(init);
    return cuda::ToDevice(tensor.To(IsCudaConvType(traced) ? traced : tensor.dtype()),
                          init.device());
  }

  static Tensor Of(const Args& args, const AnyWeightArg& arg, const Tensor& uploaded) {
    if (uploaded.defined()) return uploaded;
    return arg.Has(args) ? args.tensor(arg.arg()) : Tensor();
  }

  ConvGeometry Geometry(const Args& args) const {
    return params_.Geometry(args.shape(input_), weight_.shape(args));
  }

  ConvParams params_;
  bool transposed_;
  PadMode mode_;  // other than zeros: the image is padded first
  int input_;
  AnyWeightArg weight_, bias_;
  Tensor weight_data_, bias_data_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(conv) {
  using namespace oort;
  for (int rank = 1; rank <= 3; ++rank) {
    for (bool transposed : {false, true}) {
      for (const OperatorSchema& schema :
           {ConvModuleSchema(rank, transposed), ConvFunctionSchema(rank, transposed)}) {
        registry.AddDevice(schema.types(), DeviceType::kCuda,
                           [rank, transposed](const LayerInit& init) {
                             return std::make_unique<CudaPlanesConv>(init, rank, transposed);
                           });
      }
    }
  }
}
