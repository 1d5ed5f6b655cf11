// SPDX-License-Identifier: MIT
// Comparisons, bits, selections, casts and identities; the expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/elementwise/elementwise_reference.h"

namespace oort::testing {
namespace {

constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kFloatInf = std::numeric_limits<float>::infinity();

Tensor Bools(std::initializer_list<int> values) {
  Tensor wide(DType::kI64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), wide.data<int64_t>());
  return wide.To(DType::kBool);
}

TEST(Elementwise, ComparesTensorsAndNumbers) {
  const Tensor a = Tensor::From<float>({1, 2, 3, kFloatNan}, {4});
  const Tensor b = Tensor::From<float>({2, 2, 2, kFloatNan}, {4});
  const std::pair<const char*, Tensor> cases[] = {
      {"torch.eq", Bools({0, 1, 0, 0})}, {"torch.ne", Bools({1, 0, 1, 1})},
      {"torch.ge", Bools({0, 1, 1, 0})}, {"torch.gt", Bools({0, 0, 1, 0})},
      {"torch.le", Bools({1, 1, 0, 0})}, {"torch.lt", Bools({1, 0, 0, 0})}};
  for (const auto& [type, expected] : cases) {
    SCOPED_TRACE(type);
    for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      OperatorCase(type)
          .Input(a.To(dtype), "input")
          .Input(b.To(dtype), "other")
          .ExpectOutputs({expected});
      OperatorCase(type).Input(a.To(dtype), "input").Param("other", "2").ExpectOutputs({expected});
    }
  }
  // Integers are compared with a float as floats, and a half with a number as halves.
  OperatorCase("torch.gt")
      .Input(RangeTensor(DType::kI64, {3}), "input")
      .Param("other", "0.5")
      .ExpectOutputs({Bools({0, 1, 1})});
  OperatorCase("torch.eq")
      .Input(Tensor::From<float>({0.1f}, {1}).To(DType::kF16), "input")
      .Param("other", "0.1")
      .ExpectOutputs({Bools({1})});
  OperatorCase("torch.le")
      .Input(RangeTensor(DType::kI32, {2, 1}), "input")
      .Input(RangeTensor(DType::kI64, {2}), "other")
      .ExpectOutputs({Bools({1, 1, 0, 1}).Reshaped({2, 2})});
}

TEST(Elementwise, Bits) {
  const Tensor a = Tensor::From<int32_t>({12, -1, 5}, {3});
  const Tensor b = Tensor::From<int32_t>({10, 3, 2}, {3});
  const std::pair<const char*, Tensor> cases[] = {
      {"torch.bitwise_and", Tensor::From<int32_t>({8, 3, 0}, {3})},
      {"torch.bitwise_or", Tensor::From<int32_t>({14, -1, 7}, {3})},
      {"torch.bitwise_xor", Tensor::From<int32_t>({6, -4, 7}, {3})},
      {"torch.bitwise_left_shift", Tensor::From<int32_t>({12288, -8, 20}, {3})},
      {"torch.bitwise_right_shift", Tensor::From<int32_t>({0, -1, 1}, {3})}};
  for (const auto& [type, expected] : cases) {
    SCOPED_TRACE(type);
    OperatorCase(type).Input(a, "input").Input(b, "other").ExpectOutputs({expected});
  }
  OperatorCase("torch.bitwise_not")
      .Input(a)
      .ExpectOutputs({Tensor::From<int32_t>({-13, 0, -6}, {3})});
  OperatorCase("torch.bitwise_not").Input(Bools({1, 0})).ExpectOutputs({Bools({0, 1})});
  OperatorCase("torch.bitwise_and")
      .Input(RangeTensor(DType::kF32, {3}), "input")
      .Input(b, "other")
      .ExpectError(ErrorCode::kUnsupported, "'and' does not take f32");
}

TEST(Elementwise, TruthValues) {
  const Tensor a = Tensor::From<float>({0, 0.5f, kFloatNan, 0}, {4});
  const Tensor b = Tensor::From<int64_t>({0, 2, 0, 7}, {4});
  OperatorCase("torch.logical_and").Input(a).Input(b).ExpectOutputs({Bools({0, 1, 0, 0})});
  OperatorCase("torch.logical_or").Input(a).Input(b).ExpectOutputs({Bools({0, 1, 1, 1})});
  OperatorCase("torch.logical_xor").Input(a).Input(b).ExpectOutputs({Bools({0, 0, 1, 1})});
  OperatorCase("torch.logical_not").Input(a).ExpectOutputs({Bools({1, 0, 0, 1})});
  const Tensor special = Tensor::From<float>({1, kFloatNan, kFloatInf, -kFloatInf}, {4});
  OperatorCase("torch.isnan").Input(special).ExpectOutputs({Bools({0, 1, 0, 0})});
  OperatorCase("torch.isinf").Input(special).ExpectOutputs({Bools({0, 0, 1, 1})});
  OperatorCase("torch.isfinite").Input(special).ExpectOutputs({Bools({1, 0, 0, 0})});
  OperatorCase("aten::isnan").Input(RangeTensor(DType::kI32, {2})).ExpectOutputs({Bools({0, 0})});
}

TEST(Elementwise, FunctionsOfTheirOwn) {
  const Tensor x = RandomTensor(DType::kF32, {5, 7}, 1, 2.5, 9);
  OperatorCase("torch.lgamma").Input(x).ExpectLike(Elementwise([](double v) {
    return std::lgamma(v);
  }));
  OperatorCase("torch.positive").Input(x).ExpectLike(Elementwise([](double v) { return v; }));
  OperatorCase("aten::erfc").Input(x).ExpectLike(Elementwise([](double v) {
    return std::erfc(v);
  }));
  OperatorCase("torch.positive")
      .Input(Bools({1}))
      .ExpectError(ErrorCode::kUnsupported, "'positive' does not take bool");
}

TEST(Elementwise, Clamp) {
  const Tensor x = RandomTensor(DType::kF32, {1031}, 2, -3, 3);
  const auto clamp = [](double low, double high) {
    return Elementwise([=](double v) { return std::fmin(std::fmax(v, low), high); });
  };
  OperatorCase("torch.clamp")
      .Param("min", "-1")
      .Param("max", "0.5")
      .Input(x)
      .ExpectLike(clamp(-1, 0.5));
  OperatorCase("torch.clamp")
      .Param("min", "0")
      .Param("max", "None")
      .Input(x)
      .ExpectLike(clamp(0, HUGE_VAL));
  OperatorCase("torch.clamp")
      .Param("min", "None")
      .Param("max", "1")
      .Input(x)
      .ExpectLike(clamp(-HUGE_VAL, 1));
  OperatorCase("torch.clamp")
      .Param("min", "-inf")
      .Param("max", "1")
      .Input(x)
      .ExpectLike(clamp(-HUGE_VAL, 1));
  OperatorCase("aten::clamp_min").Input(x).Input(Value(1)).ExpectLike(clamp(1, HUGE_VAL));
  OperatorCase("aten::clamp_max").Input(x).Input(Value(1)).ExpectLike(clamp(-HUGE_VAL, 1));
  OperatorCase("torch.clamp")
      .Input(RangeTensor(DType::kI64, {5}), "input")
      .Input(Tensor::From<int64_t>({2}, {1}), "min")
      .Param("max", "3")
      .ExpectOutputs({Tensor::From<int64_t>({2, 2, 2, 3, 3}, {5})});
  OperatorCase("torch.clamp").Input(x).ExpectError(ErrorCode::kInvalidModel, "'clamp' needs");
}

TEST(Elementwise, Where) {
  const Tensor condition = Bools({1, 0, 1});
  const Tensor a = RangeTensor(DType::kF32, {2, 3}), b = RangeTensor(DType::kF32, {2, 1}, 10);
  OperatorCase("torch.where")
      .Input(condition, "condition")
      .Input(a, "input")
      .Input(b, "other")
      .ExpectOutputs({Tensor::From<float>({0, 10, 2, 3, 11, 5}, {2, 3})});
  OperatorCase("torch.where")
      .Input(condition, "condition")
      .Input(a, "input")
      .Param("other", "-inf")
      .ExpectOutputs({Tensor::From<float>({0, -kFloatInf, 2, 3, -kFloatInf, 5}, {2, 3})});
  OperatorCase("torch.where")
      .Input(condition, "condition")
      .Param("input", "1")
      .Param("other", "2.5")
      .ExpectOutputs({Tensor::From<float>({1, 2.5f, 1}, {3})});
  OperatorCase("torch.where")
      .Input(condition, "condition")
      .Input(RangeTensor(DType::kI32, {3}), "input")
      .Input(RangeTensor(DType::kF64, {3}, 0.5), "other")
      .ExpectOutputs({Tensor::From<double>({0, 1.5, 2}, {3})});
  OperatorCase("torch.where")
      .Input(a, "condition")
      .Input(a, "input")
      .Input(a, "other")
      .ExpectError(ErrorCode::kInvalidArgument, "'condition' has dtype f32");
}

TEST(Elementwise, MaskedFill) {
  const Tensor x = RangeTensor(DType::kF32, {2, 3}), mask = Bools({1, 0, 1});
  OperatorCase("Tensor.masked_fill")
      .Param("value", "-inf")
      .Input(x, "input")
      .Input(mask, "mask")
      .ExpectOutputs(
          {Tensor::From<float>({-kFloatInf, 1, -kFloatInf, -kFloatInf, 4, -kFloatInf}, {2, 3})});
  OperatorCase("Tensor.masked_fill")
      .Param("value", "-3.40282347e38")
      .Input(x.Rows(0, 1), "input")
      .Input(mask, "mask")
      .ExpectOutputs({Tensor::From<float>({-3.40282347e38f, 1, -3.40282347e38f}, {1, 3})});
  OperatorCase("Tensor.masked_fill")
      .Input(RangeTensor(DType::kI64, {3}), "input")
      .Input(mask, "mask")
      .Input(Tensor::Scalar<float>(7.75f), "value")
      .ExpectOutputs({Tensor::From<int64_t>({7, 1, 7}, {3})});
}

TEST(Elementwise, Fill) {
  OperatorCase("Tensor.fill")
      .Param("value", "0.22")
      .Input(RangeTensor(DType::kF32, {2, 2}), "input")
      .ExpectOutputs({RangeTensor(DType::kF32, {2, 2}, 0.22, 0)});
  OperatorCase("Tensor.fill")
      .Param("value", "7.9")
      .Input(RangeTensor(DType::kI32, {3}), "input")
      .ExpectOutputs({RangeTensor(DType::kI32, {3}, 7, 0)});
  OperatorCase("Tensor.fill")
      .Input(RangeTensor(DType::kF32, {2, 1500}), "input")
      .Input(Tensor::Scalar<int64_t>(-4), "value")
      .ExpectOutputs({RangeTensor(DType::kF32, {2, 1500}, -4, 0)});
  OperatorCase("Tensor.fill")
      .Input(RangeTensor(DType::kF32, {2}), "input")
      .Input(RangeTensor(DType::kF32, {2}), "value")
      .ExpectError(ErrorCode::kInvalidArgument, "expected one element to fill with");
}

TEST(Elementwise, ConvertsBetweenAllDTypes) {
  const std::pair<const char*, DType> dtypes[] = {
      {"torch.float", DType::kF32},     {"torch.double", DType::kF64},
      {"torch.half", DType::kF16},      {"torch.bfloat16", DType::kBF16},
      {"torch.int", DType::kI32},       {"torch.long", DType::kI64},
      {"torch.short", DType::kI16},     {"torch.int8", DType::kI8},
      {"torch.uint8", DType::kU8},      {"torch.bool", DType::kBool},
      {"torch.complex64", DType::kC64}, {"torch.complex128", DType::kC128}};
  const Tensor numbers = Tensor::From<float>({0, 1, 2, 100}, {4});
  for (const auto& [from_name, from] : dtypes) {
    for (const auto& [name, to] : dtypes) {
      SCOPED_TRACE(std::string(from_name) + " to " + name);
      // 0, 1, 2 and 100 are exact everywhere but in bool.
      const Tensor expected = (from == DType::kBool ? Bools({0, 1, 1, 1}) : numbers).To(to);
      OperatorCase("Tensor.to")
          .Param("dtype", name)
          .Param("copy", "False")
          .Input(numbers.To(from), "input")
          .ExpectOutputs({expected});
      OperatorCase("Tensor.type_as")
          .Input(numbers.To(from), "input")
          .Input(Tensor::Zeros(to, {2, 2}), "other")
          .ExpectOutputs({expected});
    }
  }
  OperatorCase("Tensor.to")
      .Param("dtype", "torch.qint3")
      .Input(numbers)
      .ExpectError(ErrorCode::kInvalidModel, "is no dtype");
  OperatorCase("Tensor.to")
      .Param("dtype", "torch.complex32")
      .Input(numbers)
      .ExpectError(ErrorCode::kUnsupported, "c32");
}

TEST(Elementwise, CastsTruncate) {
  OperatorCase("Tensor.to")
      .Param("dtype", "torch.int")
      .Param("memory_format", "torch.contiguous_format")
      .Input(Tensor::From<float>({-1.9f, 1.9f, -0.5f}, {3}), "input")
      .ExpectOutputs({Tensor::From<int32_t>({-1, 1, 0}, {3})});
  OperatorCase("Tensor.to")
      .Param("dtype", "None")
      .Input(RangeTensor(DType::kI16, {3}), "input")
      .ExpectOutputs({RangeTensor(DType::kI16, {3})});
}

TEST(Elementwise, Complex) {
  using Complex64 = std::complex<float>;
  const Tensor z = Tensor::From<Complex64>({{1, 4}, {2, 5}}, {2});
  const Tensor real = Tensor::From<float>({1, 2}, {2}), imag = Tensor::From<float>({4, 5}, {2});
  OperatorCase("torch.complex").Input(real, "real").Input(imag, "imag").ExpectOutputs({z});
  OperatorCase("torch.real").Input(z).ExpectOutputs({real});
  OperatorCase("torch.imag").Input(z).ExpectOutputs({imag});
  OperatorCase("torch.real").Input(real).ExpectOutputs({real});
  OperatorCase("torch.imag")
      .Input(real)
      .ExpectError(ErrorCode::kUnsupported, "'imag' does not take f32");
}

TEST(Elementwise, IdentitiesCopyNothing) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4}, 1);
  OperatorCase("torch.clone")
      .Param("memory_format", "torch.channels_last")
      .Input(x)
      .ExpectOutputs({x});
  OperatorCase("Tensor.clone")
      .Input(RangeTensor(DType::kI8, {0, 2}))
      .ExpectOutputs({RangeTensor(DType::kI8, {0, 2})});
  for (const char* type :
       {"nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d", "nn.AlphaDropout",
        "nn.FeatureAlphaDropout", "F.dropout", "F.dropout1d", "F.dropout2d", "F.dropout3d",
        "F.alpha_dropout", "F.feature_alpha_dropout"}) {
    SCOPED_TRACE(type);
    OperatorCase(type).Param("p", "0.5").Input(x).ExpectOutputs({x});
  }
}

}  // namespace
}  // namespace oort::testing
