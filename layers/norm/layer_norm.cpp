// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "layers/norm/normalized_shape.h"
#include "layers/per_element_layer.h"

namespace oort {
namespace {

template <typename T>
void NormalizeRow(const T* x, T* y, int64_t count, double eps, const double* weight,
                  const double* bias) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += ConvertElement<double>(x[i]);
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const double difference = ConvertElement<double>(x[i]) - mean;
    squares += difference * difference;
  }
  const double inverse = InverseDeviation({mean, squares}, count, eps);
  for (int64_t i = 0; i < count; ++i) {
    const double normal = (ConvertElement<double>(x[i]) - mean) * inverse;
    y[i] = ConvertElement<T>(normal * (weight != nullptr ? weight[i] : 1.0) +
                             (bias != nullptr ? bias[i] : 0.0));
  }
}

class LayerNorm : public PerElementLayer<7> {
 public:
  explicit LayerNorm(const LayerInit& init)
      : normalized_(init),
        eps_(init.Float("eps")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        tables_(init.isa()) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    normalized_.Check(x.shape());
    weight_.CheckShape(args, normalized_.shape());
    bias_.CheckShape(args, normalized_.shape());
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    if (x.elements() == 0) return;
    if (context.stream() != nullptr) {
      const int64_t count = normalized_.shape().elements();
      NormalizeRowsOnDevice(*context.stream(), x, y,
                            {.rows = x.elements() / count, .count = count, .eps = eps_},
                            weight_.OnDevice(args), bias_.OnDevice(args));
      return;
    }
    if (x.dtype() == DType::kF32) return ForwardF32(context, args, x, y);
    const Tensor weight = weight_.As(args, DType::kF64), bias = bias_.As(args, DType::kF64);
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        normalized_.ForRows<T>(context, x, y, [&](const T* in, T* out, int64_t count) {
          NormalizeRow(in, out, count, eps_, DataOrNull<double>(weight), DataOrNull<double>(bias));
        });
      }
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  void ForwardF32(const Context& context, const Args& args, const Tensor& x, Tensor& y) const {
    const Tensor weight = weight_.As(args, DType::kF32), bias = bias_.As(args, DType::kF32);
    const float* weights = DataOrNull<float>(weight);
    const float* biases = DataOrNull<float>(bias);
    normalized_.ForRows<float>(context, x, y, [&](const float* in, float* out, int64_t count) {
      const Moments moments = tables_.reduce.moments(in, count);
      const double inverse = InverseDeviation(moments, count, eps_);
      tables_.norm.apply_weighted(in, out, count, CenteredAffine(moments.mean, inverse, 0), weights,
                                  biases);
    });
  }

  NormalizedShape normalized_;
  double eps_;
  NormWeight weight_, bias_;
  NormTables tables_;
};

constexpr const char* kLayerNormDoc =
    "(x - mean) / sqrt(variance + eps) * weight + bias over the last axes.";

}  // namespace
}  // namespace oort

OORT_LAYERS(layer_norm) {
  registry.Add(OperatorSchema({"nn.LayerNorm"}, kLayerNormDoc)
                   .Tensor("input", kFloats)
                   .Ints("normalized_shape")
                   .OptionalAttribute("weight")
                   .OptionalAttribute("bias")
                   .Float("eps", 1e-5)
                   .Ignored("elementwise_affine")
                   .KeepsDType(),
               Create<LayerNorm>());
  registry.Add(OperatorSchema({"F.layer_norm"}, kLayerNormDoc)
                   .Tensor("input", kFloats)
                   .Ints("normalized_shape")
                   .OptionalTensor("weight", kFloats)
                   .OptionalTensor("bias", kFloats)
                   .Float("eps", 1e-5)
                   .KeepsDType(),
               Create<LayerNorm>());
}

OORT_CUDA_LAYERS(layer_norm) { registry.AddDevice({"nn.LayerNorm"}, DeviceType::kCuda); }
