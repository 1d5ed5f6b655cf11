// SPDX-License-Identifier: MIT
// Sums, products and functions of bytes, element by element.
#include <algorithm>
#include <optional>

#include "cuda/memory.h"
#include "layers/epilogue.h"
#include "layers/per_element_layer.h"
#include "layers/quantize/device_bytes.h"
#include "layers/quantize/quantizer.h"

namespace oort {
namespace {

/// What makes u8 of a byte, and the byte of a u8.
uint8_t FlipOf(DType dtype) { return dtype == DType::kI8 ? 128 : 0; }

const uint8_t* Bytes(const Tensor& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.raw());
}

/// What two tensors of bytes mean, and what becomes of them: limits are in steps of the result.
class PairOfBytesLayer : public PerElementLayer<2> {
 protected:
  explicit PairOfBytesLayer(const LayerInit& init)
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

  void CheckZeroPoints(const Args& args) const {
    CheckedZeroPoint(a_.zero_point, args.tensor(0).dtype());
    CheckedZeroPoint(b_.zero_point, args.tensor(1).dtype());
  }

  const QuantizeKernels& kernels_;
  DType result_;
  Quantizer a_, b_, out_;
  float low_, high_;
};

class IntegerAddLayer final : public PairOfBytesLayer {
 public:
  explicit IntegerAddLayer(const LayerInit& init) : PairOfBytesLayer(init) {}

  std::vector<Value> Infer(const Args& args) const override {
    CheckZeroPoints(args);
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
    ByteSum sum = {};
    sum.flip_a = FlipOf(args.tensor(0).dtype());
    sum.flip_b = FlipOf(args.tensor(1).dtype());
    sum.flip_out = FlipOf(result_);
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
      sum.a = Bytes(args.tensor(0));
      sum.b = Bytes(args.tensor(1));
      sum.out = reinterpret_cast<uint8_t*>(output.raw());
      return AddBytesOnDevice(*context.stream(), sum, output.elements());
    }
    context.ParallelFor(output.elements(), 32768, [&](int64_t begin, int64_t end) {
      ByteSum part = sum;
      part.a = Bytes(args.tensor(0)) + begin;
      part.b = Bytes(args.tensor(1)) + begin;
      part.out = reinterpret_cast<uint8_t*>(output.raw()) + begin;
      kernels_.add(part, end - begin);
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, 0, 0, 0}, {Reuse::kInPlace, 1, 0, 0}};
  }
};

/// How the second factor is repeated: element (i, j, k) of the product meets (i, k) of it.
struct Repetition {
  int64_t outer = 1, times = 1, inner = 1;
};

/// Where axes that are repeated lie next to each other, as those of pixels do in every layout.
std::optional<Repetition> RepetitionOf(const Shape& whole, const Shape& part) {
  if (whole.rank() != part.rank()) return {};
  Repetition repetition;
  int axis = 0;
  for (; axis < whole.rank() && whole[axis] == part[axis]; ++axis) repetition.outer *= whole[axis];
  for (; axis < whole.rank() && part[axis] == 1; ++axis) repetition.times *= whole[axis];
  for (; axis < whole.rank() && whole[axis] == part[axis]; ++axis) repetition.inner *= whole[axis];
  if (axis < whole.rank()) return {};
  return repetition;
}

class IntegerMulLayer final : public PairOfBytesLayer {
 public:
  explicit IntegerMulLayer(const LayerInit& init) : PairOfBytesLayer(init) {}

  std::vector<Value> Infer(const Args& args) const override {
    CheckZeroPoints(args);
    if (!RepetitionOf(args.shape(0), args.shape(1))) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a second factor of the first one's shape, or with extents of 1 next to "
                  "each other, got " +
                      args.shape(0).ToString() + " and " + args.shape(1).ToString());
    }
    return {Tensor::Meta(result_, args.shape(0))};
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const ByteProduct whole = ProductOf(args, output);
    const Repetition of = *RepetitionOf(args.shape(0), args.shape(1));
    if (context.stream() != nullptr) {
      // Where nothing is repeated, all is one row.
      const int64_t inner = of.times == 1 ? output.elements() : of.inner;
      return MultiplyBytesOnDevice(*context.stream(), whole, output.elements(), of.times, inner);
    }
    if (of.times == 1) {  // then all lies in one row
      return context.ParallelFor(output.elements(), 32768, [&](int64_t begin, int64_t end) {
        kernels_.multiply(From(whole, begin, begin), end - begin);
      });
    }
    // Rows of a few factors are too short for vectors: several go together.
    const int64_t together = std::clamp<int64_t>(kRepeated / of.inner, 1, of.times);
    const int64_t parts = (of.times + together - 1) / together;
    const int64_t work = 1 + 32768 / (together * of.inner);
    context.ParallelFor(of.outer * parts, work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / parts * of.times + i % parts * together;
        const int64_t rows = std::min(together, of.times - i % parts * together);
        Repeat(From(whole, row * of.inner, i / parts * of.inner), rows, of.inner);
      }
    });
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  ByteProduct ProductOf(const Args& args, Tensor& output) const {
    ByteProduct product = {};
    product.a = Bytes(args.tensor(0));
    product.b = Bytes(args.tensor(1));
    product.out = reinterpret_cast<uint8_t*>(output.raw());
    product.flip_a = FlipOf(args.tensor(0).dtype());
    product.flip_b = FlipOf(args.tensor(1).dtype());
    product.flip_out = FlipOf(result_);
    product.zero_a = a_.zero_point + product.flip_a;
    product.zero_b = b_.zero_point + product.flip_b;
    product.scale =
        static_cast<float>(static_cast<double>(a_.scale) * static_cast<double>(b_.scale) /
                           static_cast<double>(out_.scale));
    product.low = low_;
    product.high = high_;
    product.zero_point = out_.zero_point + product.flip_out;
    return product;
  }

  static ByteProduct From(ByteProduct product, int64_t at, int64_t b_at) {
    product.a += at;
    product.b += b_at;
    product.out += at;
    return product;
  }

  /// Each of `rows` meets the same factors.
  void Repeat(ByteProduct product, int64_t rows, int64_t inner) const {
    uint8_t repeated[kRepeated];
    if (rows > 1) {
      for (int64_t i = 0; i < rows; ++i) std::copy_n(product.b, inner, repeated + i * inner);
      product.b = repeated;
    }
    kernels_.multiply(product, rows * inner);
  }

  static constexpr int64_t kRepeated = 1024;
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

OperatorSchema PairOfBytes(const char* type, const char* doc) {
  OperatorSchema schema({type}, doc);
  schema.Tensor("a", kBytes).Tensor("b", kBytes);
  for (const std::string name : {"a", "b"}) {
    schema.Float(name + "_scale").Int(name + "_zero_point", 0).AtLeast(-128).AtMost(255);
  }
  schema.String("dtype").OneOf({"u8", "i8"}).Float("scale").Int("zero_point", 0).Elementwise();
  AddEpilogueParams(schema);
  return schema;
}

}  // namespace
}  // namespace oort

OORT_LAYERS(integer_elements) {
  using namespace oort;
  registry.Add(PairOfBytes("oort.IntegerAdd",
                           "The sum of two tensors of bytes, through an activation, as bytes. Made "
                           "by passes"),
               Create<IntegerAddLayer>());
  registry.Add(PairOfBytes("oort.IntegerMul",
                           "The product of two tensors of bytes, of which the second may have 1 "
                           "for the first one's pixels, through an activation, as bytes. Made by "
                           "passes"),
               Create<IntegerMulLayer>());
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
  registry.AddDevice({"oort.IntegerAdd", "oort.IntegerMul", "oort.ByteTable"},
                     oort::DeviceType::kCuda);
}
