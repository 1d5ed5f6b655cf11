// SPDX-License-Identifier: MIT
#include <limits>
#include <optional>

#include "core/dispatch.h"
#include "layers/norm/normalized_shape.h"
#include "layers/per_element_layer.h"

namespace oort {
namespace {

class RmsNorm : public PerElementLayer<4> {
 public:
  explicit RmsNorm(const LayerInit& init)
      : normalized_(init), weight_(init, "weight"), tables_(init.isa()) {
    if (const Value& eps = init.Constant("eps"); !eps.IsNone()) eps_ = eps.AsFloat();
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    normalized_.Check(x.shape());
    weight_.CheckShape(args, normalized_.shape());
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    if (x.elements() == 0) return;
    if (context.stream() != nullptr) {
      const int64_t count = normalized_.shape().elements();
      const double eps = x.dtype() == DType::kF64 ? Epsilon<double>() : Epsilon<float>();
      NormalizeRowsOnDevice(*context.stream(), x, y,
                            {.rows = x.elements() / count, .count = count, .eps = eps, .rms = true},
                            weight_.OnDevice(args), {});
      return;
    }
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_same_v<T, float>) {
        const Tensor weight = weight_.As(args, DType::kF32);
        normalized_.ForRows<T>(context, x, y, [&](const T* in, T* out, int64_t count) {
          const double scale = Scale<T>(tables_.reduce.sum_squares(in, count), count);
          tables_.norm.apply_weighted(in, out, count, {0, static_cast<float>(scale), 0},
                                      DataOrNull<float>(weight), nullptr);
        });
      } else if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const Tensor weight = weight_.As(args, DType::kF64);
        normalized_.ForRows<T>(context, x, y, [&](const T* in, T* out, int64_t count) {
          Row(in, out, count, DataOrNull<double>(weight));
        });
      }
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  template <typename T>
  double Scale(double squares, int64_t count) const {
    // torch computes f16 and bf16 in f32 and takes that type's epsilon.
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return 1 / std::sqrt(squares / static_cast<double>(count) + Epsilon<Wide>());
  }

  template <typename Wide>
  double Epsilon() const {
    return eps_.value_or(static_cast<double>(std::numeric_limits<Wide>::epsilon()));
  }

  template <typename T>
  void Row(const T* in, T* out, int64_t count, const double* weight) const {
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double value = ConvertElement<double>(in[i]);
      squares += value * value;
    }
    const double scale = Scale<T>(squares, count);
    for (int64_t i = 0; i < count; ++i) {
      const double value = ConvertElement<double>(in[i]) * scale;
      out[i] = ConvertElement<T>(weight != nullptr ? value * weight[i] : value);
    }
  }

  NormalizedShape normalized_;
  std::optional<double> eps_;
  NormWeight weight_;
  NormTables tables_;
};

constexpr const char* kRmsNormDoc = "x / sqrt(mean of x^2 + eps) * weight over the last axes.";

}  // namespace
}  // namespace oort

OORT_LAYERS(rms_norm) {
  registry.Add(OperatorSchema({"nn.RMSNorm"}, kRmsNormDoc)
                   .Tensor("input", kFloats)
                   .Ints("normalized_shape")
                   .OptionalAttribute("weight")
                   .Float("eps")
                   .Nullable()
                   .Ignored("elementwise_affine"),
               Create<RmsNorm>());
  registry.Add(OperatorSchema({"F.rms_norm"}, kRmsNormDoc)
                   .Tensor("input", kFloats)
                   .Ints("normalized_shape")
                   .OptionalTensor("weight", kFloats)
                   .Float("eps")
                   .Nullable(),
               Create<RmsNorm>());
}

OORT_CUDA_LAYERS(rms_norm) { registry.AddDevice({"nn.RMSNorm"}, DeviceType::kCuda); }
