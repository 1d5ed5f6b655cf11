// SPDX-License-Identifier: MIT
// Squeeze-and-excite as one operator, which a pass makes for a GPU. The layer also runs on the CPU,
// where that operator is put if the GPU refuses it.
#include <cmath>
#include <vector>

#include "cpu/activation.h"
#include "cuda/memory.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/squeeze_excite/device_squeeze_excite.h"
#include "layers/layout/axes.h"

namespace oort {
namespace {

float ExciteActivation(Activation kind, float x) {
  const auto hard = [](float v) { return (v < -3 ? 0 : v > 3 ? 6 : v + 3) / 6; };  // NaN stays
  switch (kind) {
    case Activation::kRelu: return x < 0 ? 0 : x;
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kHardswish: return x * hard(x);
    case Activation::kHardsigmoid: return hard(x);
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    default: return x;
  }
}

class SqueezeExcite final : public Layer {
 public:
  explicit SqueezeExcite(const LayerInit& init)
      : weights_{init.Weight("squeeze_weight"), init.Weight("squeeze_bias"),
                 init.Weight("excite_weight"), init.Weight("excite_bias")} {
    const Tensor squeeze = weights_.squeeze, excite = weights_.excite;
    if (squeeze.rank() != 2 || excite.rank() != 2 || excite.dim(0) != squeeze.dim(1) ||
        excite.dim(1) != squeeze.dim(0)) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected weights (hidden, channels) and (channels, "
                  "hidden), got " +
                      squeeze.shape().ToString() + " and " + excite.shape().ToString());
    }
    CheckBias(weights_.squeeze_bias, squeeze.dim(0));
    CheckBias(weights_.excite_bias, excite.dim(0));
    weights_.squeeze_activation = ActivationParam(init, "squeeze_activation");
    weights_.excite_activation = ActivationParam(init, "excite_activation");
    Transpose(excite);
    if (init.device().type == DeviceType::kCpu) return;
    constexpr int64_t kMostChannels = 8192;  // shared memory holds the sums of all
    if (squeeze.dim(1) > kMostChannels || squeeze.dim(0) > kMostChannels) {
      throw Error(ErrorCode::kUnsupported, "no squeeze-and-excite of more than 8192 channels");
    }
    for (Tensor* tensor :
         {&weights_.squeeze, &weights_.squeeze_bias, &weights_.excite, &weights_.excite_bias}) {
      *tensor = cuda::ToDevice(*tensor, init.device());
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    if (x.rank() < 3 || x.dim(x.rank() - 1) != weights_.squeeze.dim(1)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an image (…, H, W, " +
                                                   std::to_string(weights_.squeeze.dim(1)) +
                                                   "), got " + x.shape().ToString());
    }
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    if (x.elements() == 0) return;
    if (context.stream() != nullptr)
      return SqueezeExciteOnDevice(*context.stream(), x, y, weights_);
    const NhwcImage image(x.shape());
    const int64_t elements = image.pixels() * image.channels;
    context.ParallelFor(image.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ExciteImage(image, x.data<float>() + i * elements, y.data<float>() + i * elements);
      }
    });
  }

  bool Packs(int argument) const override { return argument != 0; }
  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  static Activation ActivationParam(const LayerInit& init, const char* name) {
    return ActivationNamed(init.String(name)).value_or(Activation::kNone);
  }
  static void CheckBias(Tensor& bias, int64_t count) {
    if (!bias.defined()) bias = Tensor::Zeros(DType::kF32, {count});
    if (bias.shape() == Shape{count}) return;
    throw Error(ErrorCode::kInvalidModel, "expected a bias of " + std::to_string(count) +
                                              " elements, got " + bias.shape().ToString());
  }
  void Transpose(const Tensor& excite) {
    const int64_t channels = excite.dim(0), hidden = excite.dim(1);
    weights_.excite = Tensor(DType::kF32, {hidden, channels});
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t h = 0; h < hidden; ++h) {
        weights_.excite.data<float>()[h * channels + c] = excite.data<float>()[c * hidden + h];
      }
    }
  }

  void ExciteImage(const NhwcImage& image, const float* x, float* y) const {
    const int64_t channels = image.channels, hidden = weights_.squeeze.dim(0);
    std::vector<double> means(static_cast<size_t>(channels));
    for (int64_t i = 0; i < image.pixels() * channels; ++i) {
      means[static_cast<size_t>(i % channels)] += x[i];
    }
    std::vector<float> factors(static_cast<size_t>(channels));
    std::copy_n(weights_.excite_bias.data<float>(), channels, factors.begin());
    for (int64_t h = 0; h < hidden; ++h) {
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) {
        sum += weights_.squeeze.data<float>()[h * channels + c] * means[static_cast<size_t>(c)];
      }
      const float squeezed =
          ExciteActivation(weights_.squeeze_activation,
                           static_cast<float>(sum / static_cast<double>(image.pixels())) +
                               weights_.squeeze_bias.data<float>()[h]);
      const float* weight = weights_.excite.data<float>() + h * channels;
      for (int64_t c = 0; c < channels; ++c)
        factors[static_cast<size_t>(c)] += weight[c] * squeezed;
    }
    for (float& factor : factors) factor = ExciteActivation(weights_.excite_activation, factor);
    for (int64_t i = 0; i < image.pixels() * channels; ++i) {
      y[i] = x[i] * factors[static_cast<size_t>(i % channels)];
    }
  }

  ExciteWeights weights_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(squeeze_excite) {
  using namespace oort;
  static const std::vector<std::string> kActivations = {"none",      "relu",        "silu",
                                                        "hardswish", "hardsigmoid", "sigmoid"};
  OperatorSchema schema =
      OperatorSchema(
          {"nhwc.SqueezeExcite"},
          "Multiplies the channels of images (…, H, W, C) by what two linear layers make "
          "of their means. Made by a pass for a GPU")
          .KeepsDType()
          .Tensor("input", kF32Only | DType::kF16 | DType::kBF16)
          .Attribute("squeeze_weight")
          .OptionalAttribute("squeeze_bias")
          .Attribute("excite_weight")
          .OptionalAttribute("excite_bias");
  schema.String("squeeze_activation", "none").OneOf(kActivations);
  schema.String("excite_activation", "none").OneOf(kActivations);
  registry.Add(schema, WithHalves(schema, Create<SqueezeExcite>()));
}

OORT_CUDA_LAYERS(squeeze_excite) {
  using namespace oort;
  registry.AddDevice({"nhwc.SqueezeExcite"}, DeviceType::kCuda, Create<SqueezeExcite>());
}
