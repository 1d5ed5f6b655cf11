// SPDX-License-Identifier: MIT
// The two operators with which a file says that a tensor is held in bytes.
#include "cuda/memory.h"
#include "layers/quantize/device_bytes.h"
#include "layers/quantize/quantize_kernels.h"
#include "layers/quantize/quantizer.h"

namespace oort {
namespace {

constexpr int64_t kQuantizeGrain = 16384;  // elements

class ToBytesLayer final : public Layer {
 public:
  explicit ToBytesLayer(const LayerInit& init)
      : kernels_(QuantizeKernelsFor(init.isa())),
        dtype_(ParseDType(init.String("dtype"))),
        quantizer_{CheckedScale(init.Float("scale")),
                   CheckedZeroPoint(init.Int("zero_point"), dtype_)} {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(dtype_, args.shape(0))};
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const float* x = args.tensor(0).data<float>();
    Tensor& output = outputs[0].AsTensor();
    const float inverse = 1.0f / quantizer_.scale;
    if (context.stream() != nullptr) {
      return QuantizeOnDevice(*context.stream(), args.tensor(0), inverse, quantizer_.zero_point,
                              output);
    }
    context.ParallelFor(output.elements(), kQuantizeGrain, [&](int64_t begin, int64_t end) {
      kernels_.quantize(x + begin, end - begin, inverse, quantizer_.zero_point, LeastByte(dtype_),
                        MostByte(dtype_), output.raw() + begin);
    });
  }

 private:
  const QuantizeKernels& kernels_;
  DType dtype_;
  Quantizer quantizer_;
};

class FromBytesLayer final : public Layer {
 public:
  explicit FromBytesLayer(const LayerInit& init) : kernels_(QuantizeKernelsFor(init.isa())) {
    ReadNumbers(init);
    if (init.device().type != DeviceType::kCpu) UploadNumbers(init.device());
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& input = args.tensor(0);
    for (const Quantizer& each : numbers_) CheckedZeroPoint(each.zero_point, input.dtype());
    if (per_channel_) {
      const int64_t channels = input.shape()[NormalizeAxis(axis_, input.rank())];
      if (channels != static_cast<int64_t>(numbers_.size())) {
        throw Error(ErrorCode::kInvalidArgument, "expected a scale for each of " +
                                                     std::to_string(channels) +
                                                     " channels of axis " + std::to_string(axis_) +
                                                     ", got " + std::to_string(numbers_.size()));
      }
    }
    return {Tensor::Meta(DType::kF32, input.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    float* y = outputs[0].AsTensor().data<float>();
    if (input.elements() == 0) return;
    if (context.stream() != nullptr) {
      DeviceDequantize by = on_device_;
      if (per_channel_) {
        by.inner = input.shape().Product(NormalizeAxis(axis_, input.rank()) + 1, input.rank());
      }
      return DequantizeOnDevice(*context.stream(), input, by, outputs[0].AsTensor());
    }
    if (!per_channel_) {
      context.ParallelFor(input.elements(), kQuantizeGrain, [&](int64_t begin, int64_t end) {
        Convert(input, begin, end - begin, numbers_[0], y);
      });
      return;
    }
    const Shape& shape = input.shape();
    const int axis = NormalizeAxis(axis_, shape.rank());
    const int64_t channels = shape[axis];
    const int64_t inner = shape.Product(axis + 1, shape.rank());
    context.ParallelFor(input.elements() / inner, kQuantizeGrain / inner + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const auto channel = static_cast<size_t>(i % channels);
                            Convert(input, i * inner, inner, numbers_[channel], y);
                          }
                        });
  }

 private:
  void ReadNumbers(const LayerInit& init) {
    const Value& scale = init.Constant("scale");
    const Value& scales = init.Constant("@scales");
    const Value& zero_points = init.Constant("@zero_points");
    if (scale.IsNone() == scales.IsNone()) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected a parameter scale for all elements, or an axis with an attribute "
                  "scales; not both");
    }
    const Value& axis = init.Constant("axis");
    if (axis.IsNone() != scales.IsNone()) {
      throw Error(ErrorCode::kInvalidModel, "an axis goes with an attribute scales");
    }
    if (scales.IsNone()) {
      if (!zero_points.IsNone()) {
        throw Error(ErrorCode::kInvalidModel, "zero_points go with an attribute scales");
      }
      numbers_.push_back({CheckedScale(scale.AsFloat()), ReadZeroPoint(init.Int("zero_point"))});
      return;
    }
    axis_ = axis.AsInt();
    per_channel_ = true;
    const Tensor& each = scales.AsTensor();
    if (each.rank() != 1) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected scales of rank 1, got " + each.shape().ToString());
    }
    for (const float value : each.span<float>()) {
      numbers_.push_back({CheckedScale(static_cast<double>(value)), 0});
    }
    if (zero_points.IsNone()) return;
    const Tensor& zeros = zero_points.AsTensor();
    if (zeros.shape() != each.shape()) {
      throw Error(ErrorCode::kInvalidModel, "expected as many zero points as scales, got " +
                                                zeros.shape().ToString() + " and " +
                                                each.shape().ToString());
    }
    for (size_t i = 0; i < numbers_.size(); ++i) {
      numbers_[i].zero_point = ReadZeroPoint(zeros.data<int32_t>()[i]);
    }
  }

  /// Which dtype it must fit is known when the input comes.
  static int32_t ReadZeroPoint(int64_t zero_point) {
    if (zero_point >= -128 && zero_point <= 255) return static_cast<int32_t>(zero_point);
    throw Error(ErrorCode::kInvalidModel,
                "expected a zero point of u8 or i8, got " + std::to_string(zero_point));
  }

  void UploadNumbers(Device device) {
    const auto count = static_cast<int64_t>(numbers_.size());
    Tensor scales(DType::kF32, {count}), zero_points(DType::kI32, {count});
    for (int64_t i = 0; i < count; ++i) {
      scales.data<float>()[i] = numbers_[static_cast<size_t>(i)].scale;
      zero_points.data<int32_t>()[i] = numbers_[static_cast<size_t>(i)].zero_point;
    }
    on_device_.scales = cuda::ToDevice(scales, device);
    on_device_.zero_points = cuda::ToDevice(zero_points, device);
  }

  void Convert(const Tensor& input, int64_t first, int64_t count, const Quantizer& by,
               float* y) const {
    if (input.dtype() == DType::kU8) {
      kernels_.dequantize_u8(input.data<uint8_t>() + first, count, by.scale, by.zero_point,
                             y + first);
    } else {
      kernels_.dequantize_i8(input.data<int8_t>() + first, count, by.scale, by.zero_point,
                             y + first);
    }
  }

  const QuantizeKernels& kernels_;
  std::vector<Quantizer> numbers_;  // one for all, or one for each channel
  bool per_channel_ = false;
  int64_t axis_ = 0;
  DeviceDequantize on_device_;  // on a GPU
};

/// Without an axis each element has the same scale.
bool HasOneScale(const Operator& op) { return op.params.count("axis") == 0; }

}  // namespace
}  // namespace oort

OORT_LAYERS(quantize) {
  using namespace oort;
  registry.Add(OperatorSchema({"oort.Quantize"},
                              "clamp(round(x / scale) + zero_point) as u8 or i8, half to even; "
                              "what is no number becomes the zero point")
                   .Tensor("input", kF32Only)
                   .Float("scale")
                   .Int("zero_point", 0)
                   .String("dtype")
                   .OneOf({"u8", "i8"})
                   .Elementwise(),
               Create<ToBytesLayer>());
  registry.Add(OperatorSchema({"oort.Dequantize"},
                              "(q - zero_point) * scale, with one scale for all or, given an "
                              "axis, one for each slice of it")
                   .Tensor("input", kBytes)
                   .Float("scale", {})
                   .Nullable()
                   .Int("zero_point", 0)
                   .Int("axis", {})
                   .Nullable()
                   .OptionalAttribute("scales", kF32Only)
                   .OptionalAttribute("zero_points", DTypeSet(DType::kI32))
                   .Elementwise(HasOneScale),
               Create<FromBytesLayer>());
}

OORT_CUDA_LAYERS(quantize) {
  registry.AddDevice({"oort.Quantize", "oort.Dequantize"}, oort::DeviceType::kCuda);
}
