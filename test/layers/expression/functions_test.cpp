// SPDX-License-Identifier: MIT
// Every function of an expression, on every instruction set and dtype, against the C library.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/elementwise/elementwise_reference.h"

namespace oort::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct UnaryCase {
  const char* name;
  double (*f)(double);
  double low, high;
};

// clang-format off: one function a line
const UnaryCase kUnaryCases[] = {
    {"abs", [](double x) { return std::fabs(x); }, -3, 3},
    {"acos", [](double x) { return std::acos(x); }, -1, 1},
    {"acosh", [](double x) { return std::acosh(x); }, 1.1, 5},
    {"asin", [](double x) { return std::asin(x); }, -1, 1},
    {"asinh", [](double x) { return std::asinh(x); }, -5, 5},
    {"atan", [](double x) { return std::atan(x); }, -5, 5},
    {"atanh", [](double x) { return std::atanh(x); }, -0.9, 0.9},
    {"ceil", [](double x) { return std::ceil(x); }, -5, 5},
    {"cos", [](double x) { return std::cos(x); }, -9, 9},
    {"cosh", [](double x) { return std::cosh(x); }, -4, 4},
    {"erf", [](double x) { return std::erf(x); }, -3, 3},
    {"erfc", [](double x) { return std::erfc(x); }, -3, 3},
    {"exp", [](double x) { return std::exp(x); }, -5, 5},
    {"exp2", [](double x) { return std::exp2(x); }, -5, 5},
    {"expm1", [](double x) { return std::expm1(x); }, -5, 5},
    {"floor", [](double x) { return std::floor(x); }, -5, 5},
    {"lgamma", [](double x) { return std::lgamma(x); }, 3, 9},
    {"log", [](double x) { return std::log(x); }, 0.1, 9},
    {"log10", [](double x) { return std::log10(x); }, 0.1, 9},
    {"log1p", [](double x) { return std::log1p(x); }, -0.9, 9},
    {"log2", [](double x) { return std::log2(x); }, 0.1, 9},
    {"neg", [](double x) { return -x; }, -5, 5},
    {"positive", [](double x) { return x; }, -5, 5},
    {"reciprocal", [](double x) { return 1 / x; }, 0.2, 5},
    {"relu", [](double x) { return x > 0 ? x : 0; }, -5, 5},
    {"round", [](double x) { return std::nearbyint(x); }, -5, 5},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.2, 5},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -9, 9},
    {"sign", [](double x) { return double((x > 0) - (x < 0)); }, -5, 5},
    {"sin", [](double x) { return std::sin(x); }, -9, 9},
    {"sinh", [](double x) { return std::sinh(x); }, -4, 4},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0, 9},
    {"square", [](double x) { return x * x; }, -5, 5},
    {"tan", [](double x) { return std::tan(x); }, -1.2, 1.2},
    {"tanh", [](double x) { return std::tanh(x); }, -4, 4},
    {"trunc", [](double x) { return std::trunc(x); }, -5, 5},
};

struct BinaryCase {
  const char* name;
  double (*f)(double, double);
  double low, high;
};

const BinaryCase kBinaryCases[] = {
    {"add", [](double a, double b) { return a + b; }, -3, 3},
    {"sub", [](double a, double b) { return a - b; }, -3, 3},
    {"mul", [](double a, double b) { return a * b; }, -3, 3},
    {"div", [](double a, double b) { return a / b; }, 0.5, 3},
    {"pow", [](double a, double b) { return std::pow(a, b); }, 0.1, 3},
    {"atan2", [](double a, double b) { return std::atan2(a, b); }, 0.1, 3},
    {"fmod", [](double a, double b) { return std::fmod(a, b); }, 1, 1.9},
    {"remainder", [](double a, double b) { return a - b * std::floor(a / b); }, 1, 1.9},
    {"floor_divide", [](double a, double b) { return std::floor(a / b); }, 1, 3},
    {"logaddexp", [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }, -3, 3},
    {"maximum", [](double a, double b) { return a > b ? a : b; }, -3, 3},
    {"max", [](double a, double b) { return a > b ? a : b; }, -3, 3},
    {"minimum", [](double a, double b) { return a < b ? a : b; }, -3, 3},
    {"min", [](double a, double b) { return a < b ? a : b; }, -3, 3},
};
// clang-format on

TEST(ExpressionFunctions, OfOneTensor) {
  for (const UnaryCase& function : kUnaryCases) {
    for (int64_t length : EdgeLengths()) {
      SCOPED_TRACE(std::string(function.name) + " of " + std::to_string(length));
      Expression(std::string(function.name) + "(@0)")
          .Input(RandomTensor(DType::kF32, {length}, 7, function.low, function.high))
          .ExpectLike(Elementwise(function.f));
    }
  }
}

TEST(ExpressionFunctions, OfTwoTensors) {
  for (const BinaryCase& function : kBinaryCases) {
    for (int64_t length : EdgeLengths()) {
      SCOPED_TRACE(std::string(function.name) + " of " + std::to_string(length));
      Expression(std::string(function.name) + "(@0,@1)")
          .Input(RandomTensor(DType::kF32, {length}, 1, function.low, function.high))
          .Input(RandomTensor(DType::kF32, {length}, 2, function.low, function.high))
          .ExpectLike(Elementwise2(function.f));
    }
  }
}

TEST(ExpressionFunctions, OfATensorAndANumber) {
  const Tensor x = RandomTensor(DType::kF32, {37}, 3, 0.2, 3);
  for (const BinaryCase& function : kBinaryCases) {
    SCOPED_TRACE(function.name);
    const std::string name = function.name;
    const auto f = function.f;
    Expression(name + "(@0,1.25)").Input(x).ExpectLike(Elementwise([f](double v) {
      return f(v, 1.25);
    }));
    Expression(name + "(1.25,@0)").Input(x).ExpectLike(Elementwise([f](double v) {
      return f(1.25, v);
    }));
  }
  for (const char* exponent : {"0", "1", "2", "3", "0.5", "-0.5", "-1", "-2", "2.5"}) {
    const double power = std::stod(exponent);
    Expression("pow(@0," + std::string(exponent) + ")")
        .Input(x)
        .ExpectLike(Elementwise([power](double v) { return std::pow(v, power); }));
  }
}

TEST(ExpressionFunctions, WholeFormulas) {
  const Tensor x = RandomTensor(DType::kF32, {3, 71}, 3), y = RandomTensor(DType::kF32, {71}, 4);
  Expression("sub(add(@0,@1),mul(sub(1,@1),10.0))")
      .Input(x)
      .Input(y)
      .ExpectLike(Elementwise2([](double a, double b) { return a + b - (1 - b) * 10; }));
  Expression("mul(@0,mul(@1,rsqrt(add(square(@0),0.5))))")
      .Input(x)
      .Input(y)
      .ExpectLike(Elementwise2([](double a, double b) { return a * b / std::sqrt(a * a + 0.5); }));
  Expression("add(log1p,square(@0)),mul(expm1,@0),2").Input(x).ExpectLike(Elementwise([](double v) {
    return std::log1p(v * v) + 2 * std::expm1(v);
  }));
}

Tensor Doubles(std::initializer_list<double> values) {
  return Tensor::From<double>(values, {static_cast<int64_t>(values.size())});
}

/// Special values in every floating dtype; the expected ones are torch's.
void ExpectSpecial(const std::string& text, std::initializer_list<double> a,
                   std::initializer_list<double> b, std::initializer_list<double> expected) {
  SCOPED_TRACE(text);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    OperatorCase test = Expression(text).Input(Doubles(a).To(dtype));
    if (b.size() != 0) test.Input(Doubles(b).To(dtype));
    test.ExpectOutputs({Doubles(expected).To(dtype)});
  }
}

TEST(ExpressionFunctions, NanAndInfinity) {
  const auto x = {kNan, kInf, -kInf, 0.0, 1.0};
  ExpectSpecial("exp(@0)", x, {}, {kNan, kInf, 0, 1, 2.718281828459045});
  ExpectSpecial("log(@0)", x, {}, {kNan, kInf, kNan, -kInf, 0});
  ExpectSpecial("sqrt(@0)", x, {}, {kNan, kInf, kNan, 0, 1});
  ExpectSpecial("rsqrt(@0)", x, {}, {kNan, 0, kNan, kInf, 1});
  ExpectSpecial("tanh(@0)", x, {}, {kNan, 1, -1, 0, 0.7615941559557649});
  ExpectSpecial("erf(@0)", x, {}, {kNan, 1, -1, 0, 0.8427007929497149});
  ExpectSpecial("sigmoid(@0)", x, {}, {kNan, 1, 0, 0.5, 0.7310585786300049});
  ExpectSpecial("sin(@0)", x, {}, {kNan, kNan, kNan, 0, 0.8414709848078965});
  ExpectSpecial("sign(@0)", x, {}, {0, 1, -1, 0, 1});
  ExpectSpecial("relu(@0)", x, {}, {kNan, kInf, 0, 0, 1});
  ExpectSpecial("round(@0)", {kNan, 0.5, 1.5, 2.5, -0.5}, {}, {kNan, 0, 2, 2, 0});
  const auto a = {kNan, 1.0, kInf, -kInf, kInf, 5.0};
  const auto b = {1.0, kNan, kInf, -kInf, -kInf, 0.0};
  ExpectSpecial("maximum(@0,@1)", a, b, {kNan, kNan, kInf, -kInf, kInf, 5});
  ExpectSpecial("minimum(@0,@1)", a, b, {kNan, kNan, kInf, -kInf, -kInf, 0});
  ExpectSpecial("logaddexp(@0,@1)", a, b, {kNan, kNan, kInf, -kInf, kInf, 5.006715348489118});
  ExpectSpecial("floor_divide(@0,@1)", a, b, {kNan, kNan, kNan, kNan, kNan, kInf});
  ExpectSpecial("remainder(@0,@1)", a, b, {kNan, kNan, kNan, kNan, kNan, kNan});
  ExpectSpecial("pow(@0,@1)", a, b, {kNan, 1, kInf, 0, 0, 1});
  ExpectSpecial("clamp(@0,2,1)", x, {}, {kNan, 1, 1, 1, 1});
}

TEST(ExpressionFunctions, SignsOfDivision) {
  const auto a = {5.0, -5.0, 7.5, -7.5}, b = {3.0, 3.0, -2.0, -2.0};
  ExpectSpecial("remainder(@0,@1)", a, b, {2, 1, -0.5, -1.5});
  ExpectSpecial("fmod(@0,@1)", a, b, {2, -2, 1.5, -1.5});
  ExpectSpecial("floor_divide(@0,@1)", a, b, {1, -2, -4, 3});
}

}  // namespace
}  // namespace oort::testing
