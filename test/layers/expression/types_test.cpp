// SPDX-License-Identifier: MIT
// Integers, bools, complex numbers and mixtures in expressions; the expected values are torch's.
#include <gtest/gtest.h>

#include "layers/elementwise/elementwise_reference.h"

namespace oort::testing {
namespace {

using Complex = std::complex<float>;

Tensor Bytes(std::initializer_list<int> values, DType dtype = DType::kI8) {
  Tensor wide(DType::kI64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), wide.data<int64_t>());
  return wide.To(dtype);
}

/// `text` of the i8 numbers 5, -5, 7, -128 and a second operand that repeats `b`.
void ExpectI8(const std::string& text, int b, std::initializer_list<int> expected) {
  SCOPED_TRACE(text + " with " + std::to_string(b));
  Expression(text)
      .Input(Bytes({5, -5, 7, -128}))
      .Input(Bytes({b, b, b, b}))
      .ExpectOutputs({Bytes(expected)});
}

TEST(ExpressionTypes, IntegersDivideAsInPython) {
  ExpectI8("fmod(@0,@1)", 3, {2, -2, 1, -2});
  ExpectI8("fmod(@0,@1)", -1, {0, 0, 0, 0});
  ExpectI8("remainder(@0,@1)", 3, {2, 1, 1, 1});
  ExpectI8("remainder(@0,@1)", -3, {-1, -2, -2, -2});
  ExpectI8("remainder(@0,@1)", -1, {0, 0, 0, 0});
  ExpectI8("floor_divide(@0,@1)", 3, {1, -2, 2, -43});
  ExpectI8("floor_divide(@0,@1)", -3, {-2, 1, -3, 42});
  ExpectI8("floor_divide(@0,@1)", -1, {-5, 5, -7, -128});
  for (const char* text : {"fmod(@0,0)", "remainder(@0,0)", "floor_divide(@0,0)"}) {
    Expression(text)
        .Input(Bytes({1, 2}))
        .ExpectError(ErrorCode::kInvalidArgument, "an integer is divided by zero");
  }
}

TEST(ExpressionTypes, IntegersWrapAndShift) {
  ExpectI8("pow(@0,@1)", 3, {125, -125, 87, 0});
  ExpectI8("pow(@0,@1)", -3, {0, 0, 0, 0});
  ExpectI8("pow(@0,@1)", 9, {101, -101, 71, 0});
  ExpectI8("lshift(@0,@1)", 3, {40, -40, 56, 0});
  ExpectI8("lshift(@0,@1)", -1, {0, 0, 0, 0});
  ExpectI8("lshift(@0,@1)", 9, {0, 0, 0, 0});
  ExpectI8("rshift(@0,@1)", 3, {0, -1, 0, -16});
  ExpectI8("rshift(@0,@1)", -1, {0, -1, 0, -1});
  ExpectI8("rshift(@0,@1)", 9, {0, -1, 0, -1});
  ExpectI8("add(@0,@1)", 127, {-124, 122, -122, -1});
  ExpectI8("mul(@0,@1)", 50, {-6, 6, 94, 0});
  ExpectI8("sub(abs(@0),@1)", 0, {5, 5, 7, -128});
  ExpectI8("add(neg(@0),@1)", 0, {-5, 5, -7, -128});
  ExpectI8("add(and(@0,@1),or(@0,@1))", 3, {8, -2, 10, -125});
  ExpectI8("xor(@0,bitwise_not(@1))", 3, {-7, 7, -5, 124});
  ExpectI8("maximum(@0,@1)", 6, {6, 6, 7, 6});
  ExpectI8("sign(mul(@0,@1))", 1, {1, -1, 1, -1});
  ExpectI8("floor(add(@0,round(@1)))", 1, {6, -4, 8, -127});
  Expression("pow(@0,-1)")
      .Input(Bytes({1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "negative integer powers");
  Expression("rshift(@0,@1)")
      .Input(Bytes({200, 200, 200}, DType::kU8))
      .Input(Bytes({7, 8, 200}, DType::kU8))
      .ExpectOutputs({Bytes({1, 0, 0}, DType::kU8)});
  Expression("add(@0,300)")
      .Input(Bytes({1, 200}, DType::kU8))
      .ExpectOutputs({Bytes({45, 244}, DType::kU8)});
}

TEST(ExpressionTypes, EveryIntegerTypeAdds) {
  for (DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64}) {
    Expression("sub(mul(@0,@1),floor_divide(@0,2))")
        .Input(Bytes({1, 2, 3, 9}, dtype))
        .Input(Bytes({5, 4, 3, 2}, dtype))
        .ExpectOutputs({Bytes({5, 7, 8, 14}, dtype)});
    Expression("gt(@0,2)")
        .Input(Bytes({1, 2, 3, 9}, dtype))
        .ExpectOutputs({Bytes({0, 0, 1, 1}, DType::kBool)});
    Expression("div(@0,2)")
        .Input(Bytes({1, 2, 3, 9}, dtype))
        .ExpectOutputs({Tensor::From<float>({0.5f, 1, 1.5f, 4.5f}, {4})});
  }
}

TEST(ExpressionTypes, Bools) {
  const Tensor a = Bytes({1, 1, 0, 0}, DType::kBool), b = Bytes({1, 0, 1, 0}, DType::kBool);
  const auto expect = [&](const std::string& text, std::initializer_list<int> expected) {
    SCOPED_TRACE(text);
    Expression(text).Input(a).Input(b).ExpectOutputs({Bytes(expected, DType::kBool)});
  };
  expect("and(@0,@1)", {1, 0, 0, 0});
  expect("or(@0,@1)", {1, 1, 1, 0});
  expect("xor(@0,@1)", {0, 1, 1, 0});
  expect("add(@0,@1)", {1, 1, 1, 0});
  expect("mul(@0,@1)", {1, 0, 0, 0});
  expect("maximum(@0,@1)", {1, 1, 1, 0});
  expect("and(and(True,@0),@1)", {1, 0, 0, 0});
  expect("eq(@0,@1)", {1, 0, 0, 1});
  expect("lt(@0,@1)", {0, 0, 1, 0});
  expect("logical_xor(@0,bitwise_not(@1))", {1, 0, 0, 1});
  Expression("mul(@0,1.5)").Input(a).ExpectOutputs({Tensor::From<float>({1.5f, 1.5f, 0, 0}, {4})});
  Expression("square(@0)").Input(a).ExpectOutputs({Bytes({1, 1, 0, 0}, DType::kI64)});
  Expression("sub(@0,@1)")
      .Input(a)
      .Input(b)
      .ExpectError(ErrorCode::kUnsupported, "'sub' does not take bool");
}

TEST(ExpressionTypes, AnyByteButZeroIsTrue) {
  // A file may hold such bytes; they must count as one.
  const uint8_t bytes[] = {0, 1, 2, 255};
  const Tensor odd = Tensor::BorrowConst(bytes, DType::kBool, {4});
  Expression("torch.long(@0)").Input(odd).ExpectOutputs({Bytes({0, 1, 1, 1}, DType::kI64)});
  Expression("eq(@0,True)").Input(odd).ExpectOutputs({Bytes({0, 1, 1, 1}, DType::kBool)});
  Expression("where(@0,1,2)").Input(odd).ExpectOutputs({Bytes({2, 1, 1, 1}, DType::kI64)});
}

TEST(ExpressionTypes, ComplexNumbers) {
  const Tensor z = Tensor::From<Complex>({{1, 2}, {-3, 0.5f}}, {2});
  Expression("sub(@0,0.000000e+00+4.000000e+00j)")
      .Input(z)
      .ExpectOutputs({Tensor::From<Complex>({{1, -2}, {-3, -3.5f}}, {2})});
  Expression("mul(@0,@0)")
      .Input(z)
      .ExpectOutputs({Tensor::From<Complex>({{-3, 4}, {8.75f, -3}}, {2})});
  Expression("abs(@0)")
      .Input(Tensor::From<Complex>({{3, 4}}, {1}))
      .ExpectOutputs({Tensor::From<float>({5}, {1})});
  Expression("exp(@0)").Input(z).ExpectOutputs(
      {Tensor::From<Complex>({{-1.1312044f, 2.4717267f}, {0.0436922f, 0.0238691f}}, {2})});
  Expression("log1p(@0)")
      .Input(z)
      .ExpectOutputs(
          {Tensor::From<Complex>({{1.0397208f, 0.7853982f}, {0.7234595f, 2.8966140f}}, {2})});
  Expression("expm1(@0)")
      .Input(z)
      .ExpectOutputs(
          {Tensor::From<Complex>({{-2.1312044f, 2.4717267f}, {-0.9563078f, 0.0238691f}}, {2})});
  Expression("eq(@0,1.0+2.0j)").Input(z).ExpectOutputs({Bytes({1, 0}, DType::kBool)});
  Expression("floor(@0)")
      .Input(z)
      .ExpectError(ErrorCode::kUnsupported, "column 1: 'floor' does not take c64");
  Expression("lt(@0,1)").Input(z).ExpectError(ErrorCode::kUnsupported, "'lt' does not take c64");
}

TEST(ExpressionTypes, MixedDTypesConvertStepByStep) {
  const Tensor integers = Bytes({1, 2, 16777217}, DType::kI64);
  // The difference of i64 is exact; only its product with a float becomes f32.
  Expression("mul(sub(@0,16777216),0.5)")
      .Input(integers)
      .ExpectOutputs({Tensor::From<float>({-8388607.5f, -8388607, 0.5f}, {3})}, {0, 0});
  Expression("add(@0,@1)")
      .Input(integers)
      .Input(Tensor::From<double>({0.5, 0.25, 0.125}, {3}))
      .ExpectOutputs({Tensor::From<double>({1.5, 2.25, 16777217.125}, {3})});
  // Each step of halves is rounded: 2048 + 1 is 2048 in f16.
  Expression("sub(add(@0,1),2048)")
      .Input(Tensor::From<float>({2048}, {1}).To(DType::kF16))
      .ExpectOutputs({Tensor::From<float>({0}, {1}).To(DType::kF16)});
  Expression("torch.float(add(@0,@0))")
      .Input(Tensor::From<float>({40000}, {1}).To(DType::kF16))
      .ExpectOutputs({Tensor::From<float>({std::numeric_limits<float>::infinity()}, {1})});
  Expression("add(@0,@1)")
      .Input(Tensor::From<float>({1.5f, 2}, {2}).To(DType::kBF16))
      .Input(Tensor::Scalar<double>(0.25))
      .ExpectOutputs({Tensor::From<float>({1.75f, 2.25f}, {2}).To(DType::kBF16)});
}

TEST(ExpressionTypes, Casts) {
  const Tensor x = Tensor::From<float>({-1.75f, 0, 2.5f, 300}, {4});
  const std::pair<const char*, DType> casts[] = {
      {"torch.double", DType::kF64},    {"torch.half", DType::kF16},
      {"torch.bfloat16", DType::kBF16}, {"torch.int", DType::kI32},
      {"torch.long", DType::kI64},      {"torch.short", DType::kI16},
      {"torch.bool", DType::kBool},     {"torch.complex64", DType::kC64}};
  for (const auto& [name, dtype] : casts) {
    SCOPED_TRACE(name);
    Expression(std::string(name) + "(@0)").Input(x).ExpectOutputs({x.To(dtype)});
  }
  Expression("torch.long(@0)").Input(x).ExpectOutputs({Bytes({-1, 0, 2, 300}, DType::kI64)});
  Expression("torch.bool(@0)").Input(x).ExpectOutputs({Bytes({1, 0, 1, 1}, DType::kBool)});
}

}  // namespace
}  // namespace oort::testing
