// SPDX-License-Identifier: MIT
// Quantized tensors. One is held as a list of its integers, its scale and its zero point, so that
// an operator that does not know of these refuses it instead of reading the integers as numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dispatch.h"
#include "graph/dtype_names.h"
#include "oort/layer.h"

namespace oort {
namespace {

constexpr DTypeSet kQuantizedInts = DType::kI8 | DType::kU8 | DType::kI32;

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

class DequantizeLayer final : public Layer {
 public:
  explicit DequantizeLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, Integers(args).shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& integers = Integers(args);
    const float scale = static_cast<float>(args[0].AsList()[1].AsFloat());
    const float zero_point = static_cast<float>(args[0].AsList()[2].AsInt());
    if (!outputs[0].IsTensor()) outputs[0] = Tensor(DType::kF32, integers.shape());
    float* y = outputs[0].AsTensor().data<float>();
    VisitDType(integers.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_integral_v<T> && sizeof(T) <= sizeof(int32_t)) {
        const T* q = integers.data<T>();
        context.ParallelFor(integers.elements(), 16384, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            y[i] = (static_cast<float>(q[i]) - zero_point) * scale;
          }
        });
      }
    });
  }

 private:
  static const Tensor& Integers(const Args& args) {
    const bool quantized = args[0].IsList() && args[0].AsList().size() == 3 &&
                           args[0].AsList()[0].IsTensor() &&
                           kQuantizedInts.Contains(args[0].AsList()[0].AsTensor().dtype());
    if (!quantized) {
      throw Error(ErrorCode::kUnsupported,
                  "takes what an operator of this graph has quantized; the scale of any other "
                  "tensor is not in the file");
    }
    return args[0].AsList()[0].AsTensor();
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(quantized) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.quantize_per_tensor", "aten::quantize_per_tensor",
                               "nn.quantized.Quantize"},
                              "round(x / scale) + zero_point as integers of 8 or 32 bits, for "
                              "`torch.dequantize` alone")
                   .Tensor("input", kFloats)
                   .Any("scale")
                   .Dynamic()
                   .Any("zero_point")
                   .Dynamic()
                   .Any("dtype"),
               Create<QuantizeLayer>());
  registry.Add(OperatorSchema({"torch.dequantize", "aten::dequantize", "nn.quantized.DeQuantize"},
                              "(q - zero_point) * scale of what was quantized")
                   .Any("input")
                   .Dynamic(),
               Create<DequantizeLayer>());
}
