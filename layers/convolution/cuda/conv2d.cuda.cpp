// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/conv_algorithms.h"

#include <limits>

#include "cuda/memory.h"
#include "layers/convolution/cuda/narrow_conv.h"
#include "layers/convolution/nhwc/conv_shape.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

/// What the image was traced as decides; f32 is multiplied as f32, unless less was asked for.
cuda::ConvMath CudaMathOf(const LayerInit& init) {
  const DType traced = init.inputs().empty() ? DType::kNull : init.inputs()[0]->dtype;
  if (traced == DType::kF16) return cuda::ConvMath::kF16;
  if (traced == DType::kBF16) return cuda::ConvMath::kBF16;
  return ReadPrecision(init) == Precision::kF32 ? cuda::ConvMath::kF32 : cuda::ConvMath::kTF32;
}

DType CudaItemOf(cuda::ConvMath math) {
  if (math == cuda::ConvMath::kF16) return DType::kF16;
  return math == cuda::ConvMath::kBF16 ? DType::kBF16 : DType::kF32;
}

/// torch's (filters, channels, height, width) in NHWC: rows of `depth` elements,
/// or, where each channel has its own filter, (height, width, channels).
Tensor CudaPacked(const Tensor& weight, int64_t depth, bool depthwise) {
  const int64_t filters = weight.dim(0), channels = weight.dim(1);
  const int64_t taps = weight.dim(2) * weight.dim(3);
  Tensor packed =
      Tensor::Zeros(DType::kF32, depthwise ? Shape{taps, filters} : Shape{filters, depth});
  const float* from = weight.data<float>();
  float* to = packed.data<float>();
  for (int64_t f = 0; f < filters; ++f) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap, ++from) {
        to[depthwise ? tap * filters + f : f * depth + tap * channels + c] = *from;
      }
    }
  }
  return packed;
}

/// The weight of pairs of pixels, see cuda::PixelPairs: taps move by `lead`.
Tensor CudaPaired(const Tensor& weight, const cuda::PixelPairs& pairs) {
  const int64_t filters = weight.dim(0), channels = weight.dim(1), height = weight.dim(2);
  const int64_t width = weight.dim(3), along = int64_t{2} * pairs.kernel;
  Tensor paired = Tensor::Zeros(DType::kF32, {filters, height * along * channels});
  const float* from = weight.data<float>();
  for (int64_t f = 0; f < filters; ++f) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < height * width; ++tap, ++from) {
        const int64_t at = (f * height + tap / width) * along + tap % width + pairs.lead;
        paired.data<float>()[at * channels + c] = *from;
      }
    }
  }
  return paired;
}

int CudaInt(int64_t value) {
  if (value <= std::numeric_limits<int>::max() / 4) return static_cast<int>(value);
  throw Error(ErrorCode::kUnsupported,
              "the convolution is too large for the GPU: " + std::to_string(value));
}

cuda::ConvWalk CudaWalk(const ConvAxis& axis) {
  return {CudaInt(axis.in),     CudaInt(axis.out),      CudaInt(axis.kernel),
          CudaInt(axis.stride), CudaInt(axis.dilation), CudaInt(axis.pad)};
}

class CudaNhwcConv final : public Layer {
 public:
  explicit CudaNhwcConv(const LayerInit& init)
      : shape_(init),
        device_(init.device().index),
        addend_(init.Arg("addend")),
        math_(CudaMathOf(init)),
        wanted_(ReadConvAlgorithm(init)) {
    shape_.RefuseParts(init);
    const Tensor weight = NhwcConvShape::WeightOf(init);
    depth_ = cuda::ConvDepth(math_, weight.dim(1), weight.dim(2) * weight.dim(3));
    const auto packed = [&](bool depthwise) {
      const Tensor host = CudaPacked(weight, depth_, depthwise).To(CudaItemOf(math_));
      return cuda::ToDevice(host, init.device());
    };
    if (shape_.depthwise()) depthwise_ = packed(true);
    // Where each channel has its own filter, another algorithm comes only if it is wanted.
    if (!shape_.depthwise() || !wanted_.empty()) packed_ = packed(false);
    const Tensor& bias = shape_.bias().constant();
    if (bias.defined()) bias_ = cuda::ToDevice(bias, init.device());
    PackPairs(init, weight);
  }

  std::vector<Value> Infer(const Args& args) const override {
    const DType item = CudaItemOf(math_);
    for (int index : {shape_.input(), addend_}) {
      if (!args.Has(index) || args.tensor(index).dtype() == item) continue;
      throw Error(ErrorCode::kUnsupported, "expected images of " + std::string(Name(item)) +
                                               ", as the model was loaded for, got " +
                                               args.tensor(index).ToString());
    }
    return {Tensor::Meta(item, shape_.Output(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    cuda::RunConv(*context.stream(), ProblemOf(args, output), wanted_);
  }

  bool Packs(int argument) const override {
    return argument == shape_.weight() || argument == shape_.bias().arg();
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * shape_.Geometry(args).multiplications();
    const auto algorithms = cuda::CudaConvAlgorithms();
    const cuda::ConvProblem problem = ProblemOf(args, outputs[0].AsTensor());
    cost.algorithm = algorithms[ChooseConv(algorithms, problem, wanted_)]->name();
    return cost;
  }

 private:
  /// Images of 4 channels of 16 bits that are walked two pixels at a time.
  void PackPairs(const LayerInit& init, const Tensor& weight) {
    constexpr int64_t kMost = 15, kProbe = 64;
    if (weight.dim(1) != 4 || shape_.params().groups() != 1 || CudaItemOf(math_) == DType::kF32 ||
        weight.dim(2) > kMost || weight.dim(3) > kMost) {
      return;
    }
    const Shape probe = {1, weight.dim(1), kProbe, kProbe};
    const ConvAxis along = shape_.params().Geometry(probe, weight.shape()).axes[2];
    if (along.stride != 2 || along.dilation != 1 || along.pad > kMost) return;
    pairs_ = cuda::PixelPairs::Of(CudaInt(along.kernel), CudaInt(along.pad));
    paired_ = cuda::ToDevice(CudaPaired(weight, pairs_).To(CudaItemOf(math_)), init.device());
  }

  void TakePairs(cuda::ConvCall& call) const {
    call.weight = paired_.raw();
    call.channels *= 2;
    call.in_pixel *= 2;
    call.width.in /= 2;
    call.width.stride = 1;
    call.width.kernel = pairs_.kernel;
    call.width.pad = pairs_.pad;
    call.depth = call.taps() * call.channels;
  }

  /// With pixels in pairs where that makes a narrow image of it.
  cuda::ConvProblem ProblemOf(const Args& args, const Tensor& output) const {
    cuda::ConvCall call = CallOf(args, output);
    if (paired_.defined() && call.width.in % 2 == 0) TakePairs(call);
    return {call, math_, device_, depthwise_.defined() ? depthwise_.raw() : nullptr};
  }

  cuda::ConvCall CallOf(const Args& args, const Tensor& output) const {
    const ConvGeometry g = shape_.Geometry(args);
    cuda::ConvCall call;
    call.in = args.tensor(shape_.input()).raw();
    call.weight = packed_.defined() ? packed_.raw() : nullptr;
    call.depth = depth_;
    call.epilogue.bias = bias_.defined() ? bias_.data<float>() : nullptr;
    call.epilogue.addend = args.Has(addend_) ? args.tensor(addend_).raw() : nullptr;
    const ActivationSpec& activation = shape_.epilogue().activation();
    call.epilogue.activation = activation.kind;
    call.epilogue.a = activation.a;
    call.epilogue.b = activation.b;
    call.out = const_cast<std::byte*>(output.raw());
    call.batch = g.batch;
    call.height = CudaWalk(g.axes[1]);
    call.width = CudaWalk(g.axes[2]);
    call.groups = CudaInt(g.groups);
    call.channels = CudaInt(g.group_in());
    call.filters = CudaInt(g.group_out());
    call.in_pixel = g.in_channels;
    call.out_pixel = g.out_channels;
    return call;
  }

  NhwcConvShape shape_;
  int device_, addend_;
  cuda::ConvMath math_;
  std::string wanted_;  // algorithm, or empty
  int64_t depth_ = 0;
  cuda::PixelPairs pairs_ = {};
  Tensor packed_, depthwise_, bias_, paired_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(conv2d) {
  using namespace oort;
  registry.AddDevice({"nhwc.Conv2d"}, DeviceType::kCuda, Create<CudaNhwcConv>());
}
