// SPDX-License-Identifier: MIT
// Sums and functions of bytes, element by element.
#include "cuda/memory.h"
#include "layers/epilogue.h"
#include "layers/per_element_layer.h"
#include "layers/quantize/device_bytes.h"
#include "layers/quantize/quantizer.h"

namespace oort {
namespace {

class IntegerAddLayer final : public PerElementLayer<2> {
 public:
  explicit IntegerAddLayer(const LayerInit& init)
      : kernels_(QuantizeKernelsFor(init.isa())),
        result_(ParseDType(init.String("dtype"))),
        a_{CheckedScale(init.Float("a_scale")), static_cast<int32_t>(init.Int("a_zero_point"))},
        b_{CheckedScale(init.Float("b_scale")), static_cast<int32_t>(init.Int("b_zero_point"))},
        out_{CheckedScale(init.Float("scale")), CheckedZeroPoint(init.Int("zero_point"), result_)} {
    low_ = static_cast<float>(LeastByte(result_) - out_.zero_point);
    high_ = static_cast<float>(MostByte(result_) - out_.zero_point);
    const ActivationSpec activation = ReadActivation(init);
    if (activation.kind == Activation::kNone) return;
    const bool relu = activation.kind == Activation::kRelu;
    if (!relu && activation.kind != Activation::kClamp) {
      throw Error(ErrorCode::kUnsupported, "expected the activation none, relu or clamp");
    }
    const float most = relu ? high_ : activation.b / out_.scale;
    const float least = relu ? 0 : activation.a / out_.scale;
    const float lowest = low_, highest = high_;
    high_ = std::fmin(std::fmax(most, lowest), highest);
    low_ = std::fmin(std::fmax(least, lowest), high_);
  }

  std::vector<Value> Infer(const Args& args) const override {
    CheckedZeroPoint(a_.zero_point, args.tensor(0).dtype());
    CheckedZeroPoint(b_.zero_point, args.tensor(1).dtype());
    if (args.shape(0) != args.shape(1)) {
      throw Error(ErrorCode::kInvalidArgument, "expected summands of one shape, got " +
                                                   args.shape(0).ToString() + " and " +
                                                   args.shape(1).ToString());
    }
    return {Tensor::Meta(result_, args.shape(0))};
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const auto flip = [](DType dtype) {
      return static_cast<uint8_t>(dtype == DType::kI8 ? 128 : 0);
    };
    const auto bytes = [](const std::byte* raw) { return reinterpret_cast<const uint8_t*>(raw); };
    ByteSum sum = {};
    sum.flip_a = flip(args.tensor(0).dtype());
    sum.flip_b = flip(args.tensor(1).dtype());
    sum.flip_out = flip(result_);
    const double unit = static_cast<double>(out_.scale);
    const double scale_a = static_cast<double>(a_.scale) / unit;
    const double scale_b = static_cast<double>(b_.scale) / unit;
    sum.scale_a = static_cast<float>(scale_a);
    sum.scale_b = static_cast<float>(scale_b);
    sum.rest = static_cast<float>(-(a_.zero_point + sum.flip_a) * scale_a -
                                  (b_.zero_point + sum.flip_b) * scale_b);
    sum.low = low_;
    sum.high = high_;
    sum.zero_point = out_.zero_point + sum.flip_out;
    if (context.stream() != nullptr) {
      sum.a = bytes(args.tensor(0).raw());
      sum.b = bytes(args.tensor(1).raw());
      sum.out = reinterpret_cast<uint8_t*>(output.raw());
      return AddBytesOnDevice(*context.stream(), sum, output.elements());
    }
    context.ParallelFor(output.elements(), 32768, [&](int64_t begin, int64_t end) {
      ByteSum part = sum;
      part.a = bytes(args.tensor(0).raw()) + begin;
      part.b = bytes(args.tensor(1).raw()) + begin;
      part.out = reinterpret_cast<uint8_t*>(output.raw()) + begin;
      kernels_.add(part, end - begin);
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, 0, 0, 0}, {Reuse::kInPlace, 1, 0, 0}};
  }

 private:
  const QuantizeKernels& kernels_;
  DType result_;
  Quantizer a_, b_, out_;
  float low_, high_;
};

/// What a function of one element gives for each byte.
class ByteTableLayer final : public PerElementLayer<1> {
 public:
  explicit ByteTableLayer(const LayerInit& init) {
    const Value& value = init.Constant("@table");
    if (!value.IsTensor() || value.AsTensor().shape() != Shape{256}) {
      throw Error(ErrorCode::kInvalidModel, "expected a table of 256 bytes");
    }
    table_ = value.AsTensor();
    if (init.device().type != DeviceType::kCpu) {
      on_device_ = cuda::ToDevice(table_, init.device());
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(table_.dtype(), args.shape(0))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (context.stream() != nullptr) {
      return ByteTableOnDevice(*context.stream(), args.tensor(0), on_device_,
                               outputs[0].AsTensor());
    }
    const std::byte* in = args.tensor(0).raw();
    std::byte* out = outputs[0].AsTensor().raw();
    const std::byte* table = table_.raw();
    context.ParallelFor(args.tensor(0).elements(), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = table[std::to_integer<size_t>(in[i])];
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  Tensor table_, on_device_;
};

void AddSummand(OperatorSchema& schema, const std::string& name) {
  schema.Float(name + "_scale").Int(name + "_zero_point", 0).AtLeast(-128).AtMost(255);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(integer_elements) {
  using namespace oort;
  OperatorSchema add({"oort.IntegerAdd"},
                     "The sum of two tensors of bytes, through an activation, as bytes. Made by "
                     "passes");
  add.Tensor("a", kBytes).Tensor("b", kBytes);
  AddSummand(add, "a");
  AddSummand(add, "b");
  add.String("dtype").OneOf({"u8", "i8"}).Float("scale").Int("zero_point", 0).Elementwise();
  AddEpilogueParams(add);
  registry.Add(std::move(add), Create<IntegerAddLayer>());
  registry.Add(
      OperatorSchema({"oort.ByteTable"},
                     "`table` at each byte, i8 counted from 128 down as its bits are. Made "
                     "by passes")
          .Tensor("input", kBytes)
          .Attribute("table", kBytes)
          .Elementwise(),
      Create<ByteTableLayer>());
}

OORT_CUDA_LAYERS(integer_elements) {
  registry.AddDevice({"oort.IntegerAdd", "oort.ByteTable"}, oort::DeviceType::kCuda);
}
