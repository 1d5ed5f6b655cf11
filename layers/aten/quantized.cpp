// SPDX-License-Identifier: MIT
#include "layers/aten/quantized.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dispatch.h"
#include "graph/dtype_names.h"
#include "layers/composite/decomposition.h"

namespace oort {
namespace {

DType QuantizedDType(const Value& value) {
  std::string name = value.IsString() ? value.AsString() : "";
  if (name.rfind("torch.", 0) == 0) name.erase(0, 6);
  if (name == "quint8") return DType::kU8;
  if (name == "qint8") return DType::kI8;
  if (name == "qint32") return DType::kI32;
  // By number only the quantized types count: 12, 13 and 14.
  if (value.IsInt() && value.AsInt() >= 12 && value.AsInt() <= 14) return ParseTorchDType(value);
  throw Error(ErrorCode::kUnsupported,
              "expected dtype quint8, qint8 or qint32, got " + value.ToString());
}

/// A number, or the only element of a tensor.
double NumberOf(const Value& value) {
  return value.IsTensor() ? value.AsTensor().Item() : value.AsFloat();
}

class QuantizeLayer final : public Layer {
 public:
  explicit QuantizeLayer(const LayerInit& init)
      : dtype_(QuantizedDType(init.Constant("dtype"))),
        scale_(init.Arg("scale")),
        zero_point_(init.Arg("zero_point")) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[scale_].IsConcrete() || !args[zero_point_].IsConcrete()) return {Value::Deferred()};
    const auto [scale, zero_point] = Read(args);
    const Tensor integers = Tensor::Meta(dtype_, args.shape(0));
    return {Value(Value::List{Value(integers), Value(scale), Value(zero_point)})};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Quantizer quantizer = Read(args);
    const Tensor x = args.tensor(0).To(DType::kF32);
    Tensor integers(dtype_, x.shape());
    VisitDType(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_integral_v<T> && sizeof(T) <= sizeof(int32_t)) {
        Round(context, x.data<float>(), x.elements(), quantizer, integers.data<T>());
      }
    });
    outputs[0] =
        Value(Value::List{Value(integers), Value(quantizer.scale), Value(quantizer.zero_point)});
  }

 private:
  struct Quantizer {
    double scale;
    int64_t zero_point;
  };

  Quantizer Read(const Args& args) const {
    const double scale = NumberOf(args[scale_]), zero_point = NumberOf(args[zero_point_]);
    const double least = dtype_ == DType::kU8 ? 0 : dtype_ == DType::kI8 ? -128 : INT32_MIN;
    const double most = dtype_ == DType::kU8 ? 255 : dtype_ == DType::kI8 ? 127 : INT32_MAX;
    if (!(scale > 0) || std::isinf(scale) || !(zero_point >= least && zero_point <= most)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a scale above 0 and a zero point of the dtype, got " +
                      Value(scale).ToString() + " and " + Value(zero_point).ToString());
    }
    return {scale, static_cast<int64_t>(zero_point)};
  }

  template <typename T>
  static void Round(const Context& context, const float* x, int64_t count,
                    const Quantizer& quantizer, T* integers) {
    const float inverse = 1.0f / static_cast<float>(quantizer.scale);
    const double zero_point = static_cast<double>(quantizer.zero_point);
    constexpr double kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
    context.ParallelFor(count, 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double rounded = static_cast<double>(std::nearbyint(x[i] * inverse)) + zero_point;
        // What is no number becomes the least, as a conversion to an integer makes it.
        integers[i] = static_cast<T>(rounded >= kLeast ? std::min(rounded, kMost) : kLeast);
      }
    });
  }

  DType dtype_;
  int scale_, zero_point_;
};

/// (q - zero_point) * scale, in f32.
std::vector<Value> Dequantize(const Decomposer& call, const Args& args) {
  const bool per_channel = IsQuantizedPerChannel(args[0]);
  if (!per_channel) RequireQuantized(args[0]);
  const Value::List& parts = args[0].AsList();
  Value scale = parts[1], zero_point = parts[2];
  if (per_channel) {
    const Shape& shape = parts[0].AsTensor().shape();
    Shape along;
    for (int i = 0; i < shape.rank(); ++i) along.Append(i == parts[3].AsInt() ? shape[i] : 1);
    scale = call.Reshape(scale, along);
    zero_point = call.Reshape(zero_point, along);
  }
  return {
      call.Formula("torch.float(mul(sub(torch.float(@0),@1),@2))", {parts[0], zero_point, scale})};
}

/// input, scales, zero_points, axis, dtype
std::vector<Value> QuantizePerChannel(const Decomposer& call, const Args& args) {
  const Shape& shape = args.shape(0);
  const int axis = NormalizeAxis(args[3].AsInt(), shape.rank());
  if (args.tensor(1).elements() != shape[axis] || args.tensor(2).elements() != shape[axis]) {
    throw Error(ErrorCode::kInvalidArgument, "expected a scale and a zero point for each slice");
  }
  Shape along;
  for (int i = 0; i < shape.rank(); ++i) along.Append(i == axis ? shape[i] : 1);
  const DType dtype = QuantizedDType(args[4]);
  const int64_t least = dtype == DType::kU8 ? 0 : dtype == DType::kI8 ? -128 : INT32_MIN;
  const int64_t most = dtype == DType::kU8 ? 255 : dtype == DType::kI8 ? 127 : INT32_MAX;
  const Value rounded = call.Formula(
      "clamp(add(round(torch.double(mul(@0,div(1.0,torch.float(@1))))),@2),@3,@4)",
      {args[0], call.Reshape(args[1], along), call.Reshape(args[2], along), least, most});
  const Value integers =
      call("Tensor.to", {{"input", rounded}, {"dtype", std::string(Name(dtype))}});
  return {Value(Value::List{integers, args[1], args[2], axis})};
}

/// torch's choice of scale and zero point for numbers from `low` to `high`.
Value::List ChooseScale(const Tensor& x, DType dtype, bool reduce_range) {
  float low = 0, high = 0;
  for (const float value : x.span<float>()) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double shrink = reduce_range ? 2 : 1;
  const double least = dtype == DType::kU8 ? 0 : -128 / shrink;
  const double most = dtype == DType::kU8 ? std::floor(255 / shrink) : std::floor(127 / shrink);
  double scale = (static_cast<double>(high) - static_cast<double>(low)) / (most - least);
  if (static_cast<float>(scale) == 0 || std::isinf(1 / static_cast<float>(scale))) scale = 0.1;
  constexpr double kSmallest = 6.1e-5;
  if (scale < kSmallest) scale = kSmallest;
  const double from_low = least - static_cast<double>(low) / scale;
  const double from_high = most - static_cast<double>(high) / scale;
  const double low_error = std::abs(least) - std::abs(static_cast<double>(low) / scale);
  const double high_error = std::abs(most) - std::abs(static_cast<double>(high) / scale);
  const double zero = low_error < high_error ? from_low : from_high;
  const double nudged = std::clamp(std::isnan(zero) ? least : std::nearbyint(zero), least, most);
  return {Value(static_cast<double>(static_cast<float>(scale))),
          Value(static_cast<int64_t>(nudged))};
}

/// input, dtype, reduce_range
std::vector<Value> QuantizeDynamic(const Decomposer& call, const Args& args) {
  if (!call.computes()) return {Value::Deferred()};
  const Value::List chosen = ChooseScale(args.tensor(0).To(DType::kF32), QuantizedDType(args[1]),
                                         ValueOr(args, 2, false).AsBool());
  const Value dtype = args[1].IsString() ? args[1] : Value(args[1].AsInt());
  return {call(
      "torch.quantize_per_tensor",
      {{"input", args[0]}, {"scale", chosen[0]}, {"zero_point", chosen[1]}, {"dtype", dtype}})};
}

std::vector<Value> IntegersOf(const Decomposer&, const Args& args) {
  if (!IsQuantizedPerChannel(args[0])) RequireQuantized(args[0]);
  return {args[0].AsList()[0]};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(quantized) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.quantize_per_tensor", "aten::quantize_per_tensor",
                               "nn.quantized.Quantize"},
                              "round(x / scale) + zero_point as integers of 8 or 32 bits, for "
                              "`torch.dequantize` and `nn.quantized`")
                   .Tensor("input", kFloats)
                   .Any("scale")
                   .Dynamic()
                   .Any("zero_point")
                   .Dynamic()
                   .Any("dtype"),
               Create<QuantizeLayer>());
  AddDecomposition(
      registry,
      DecompositionSchema({"torch.dequantize", "aten::dequantize", "nn.quantized.DeQuantize"},
                          "(q - zero_point) * scale of what was quantized", "input"),
      Dequantize);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::quantize_per_channel"},
                          "`torch.quantize_per_tensor` with a scale for each slice of an axis",
                          "*input *scales *zero_points axis dtype"),
      QuantizePerChannel);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::quantize_per_tensor_dynamic"},
                          "`torch.quantize_per_tensor` with a scale that fits the elements",
                          "*input dtype reduce_range", kFloats),
      QuantizeDynamic);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::int_repr"}, "The integers of what was quantized", "input"),
      IntegersOf);
}
