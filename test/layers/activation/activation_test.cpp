// SPDX-License-Identifier: MIT
// Activations on every instruction set and floating dtype, against plain formulas in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/elementwise/elementwise_reference.h"

namespace oort::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Relu6(double x) { return std::fmin(std::fmax(x, 0), 6); }

struct ActivationCase {
  std::vector<const char*> types;
  std::vector<std::pair<const char*, const char*>> params;
  double (*f)(double);
};

// clang-format off: one activation a line
const ActivationCase kCases[] = {
    {{"nn.ReLU", "F.relu"}, {}, [](double x) { return x > 0 ? x : 0; }},
    {{"nn.ReLU6", "F.relu6"}, {}, Relu6},
    {{"nn.Hardtanh", "F.hardtanh"}, {}, [](double x) { return std::fmin(std::fmax(x, -1), 1); }},
    {{"nn.Hardtanh", "F.hardtanh"},
     {{"min_val", "-0.2"}, {"max_val", "3"}},
     [](double x) { return std::fmin(std::fmax(x, -0.2), 3); }},
    {{"nn.Hardsigmoid", "F.hardsigmoid"}, {}, [](double x) { return Relu6(x + 3) / 6; }},
    {{"nn.Hardswish", "F.hardswish"}, {}, [](double x) { return x * Relu6(x + 3) / 6; }},
    {{"nn.SiLU", "F.silu"}, {}, [](double x) { return x * Sigmoid(x); }},
    {{"nn.Sigmoid", "F.sigmoid"}, {}, Sigmoid},
    {{"nn.Tanh", "F.tanh"}, {}, [](double x) { return std::tanh(x); }},
    {{"nn.GELU", "F.gelu"}, {}, [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }},
    {{"nn.GELU", "F.gelu"},
     {{"approximate", "tanh"}},
     [](double x) {
       return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     }},
    {{"nn.ELU", "F.elu"}, {}, [](double x) { return x > 0 ? x : std::expm1(x); }},
    {{"nn.ELU", "F.elu"},
     {{"alpha", "-0.6"}},
     [](double x) { return x > 0 ? x : -0.6 * std::expm1(x); }},
    {{"nn.CELU", "F.celu"},
     {{"alpha", "2"}},
     [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }},
    {{"nn.SELU", "F.selu"},
     {},
     [](double x) {
       return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
     }},
    {{"nn.LeakyReLU", "F.leaky_relu"}, {}, [](double x) { return x > 0 ? x : 0.01 * x; }},
    {{"nn.LeakyReLU", "F.leaky_relu"},
     {{"negative_slope", "-0.22"}},
     [](double x) { return x > 0 ? x : -0.22 * x; }},
    {{"nn.RReLU", "F.rrelu"},
     {{"lower", "0.1"}, {"upper", "0.5"}},
     [](double x) { return x > 0 ? x : 0.3 * x; }},
    {{"nn.Softplus", "F.softplus"},
     {},
     [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
    {{"nn.Softplus", "F.softplus"},
     {{"beta", "2"}, {"threshold", "1.5"}},
     [](double x) { return x * 2 > 1.5 ? x : std::log1p(std::exp(2 * x)) / 2; }},
    {{"nn.Softsign", "F.softsign"}, {}, [](double x) { return x / (1 + std::fabs(x)); }},
    {{"nn.Mish", "F.mish"}, {}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {{"nn.LogSigmoid", "F.logsigmoid"}, {}, [](double x) { return -std::log1p(std::exp(-x)); }},
    {{"nn.Hardshrink", "F.hardshrink"},
     {{"lambd", "0.75"}},
     [](double x) { return std::fabs(x) > 0.75 ? x : 0; }},
    {{"nn.Softshrink", "F.softshrink"},
     {{"lambd", "0.75"}},
     [](double x) { return x > 0.75    ? x - 0.75
                           : x < -0.75 ? x + 0.75
                                       : 0; }},
    {{"nn.Tanhshrink", "F.tanhshrink"}, {}, [](double x) { return x - std::tanh(x); }},
    {{"nn.Threshold", "F.threshold"},
     {{"threshold", "0.5"}, {"value", "20"}},
     [](double x) { return x > 0.5 ? x : 20; }},
};
// clang-format on

OperatorCase Make(const char* type, const ActivationCase& activation) {
  OperatorCase test(type);
  for (const auto& [key, value] : activation.params) test.Param(key, value);
  return test;
}

TEST(Activation, AgreesWithItsFormula) {
  for (const ActivationCase& activation : kCases) {
    for (const char* type : activation.types) {
      // The others are other names of the same layer.
      const bool first = type == activation.types[0];
      for (int64_t length : first ? EdgeLengths() : std::vector<int64_t>{33}) {
        SCOPED_TRACE(std::string(type) + " of " + std::to_string(length));
        Make(type, activation)
            .Input(RandomTensor(DType::kF32, {length}, 5, -4, 4))
            .ExpectLike(Elementwise(activation.f));
      }
    }
  }
}

TEST(Activation, WideRange) {
  for (const ActivationCase& activation : kCases) {
    SCOPED_TRACE(activation.types[0]);
    Make(activation.types[0], activation)
        .Input(RandomTensor(DType::kF32, {3, 50}, 6, -60, 60))
        .ExpectLike(Elementwise(activation.f));
  }
}

struct SpecialCase {
  const char* type;
  std::vector<double> expected;  // of NaN, inf, -inf, 200 and -200
};

TEST(Activation, NanAndInfinityAsInTorch) {
  const SpecialCase cases[] = {
      {"nn.ReLU", {kNan, kInf, 0, 200, 0}},
      {"nn.ReLU6", {kNan, 6, 0, 6, 0}},
      {"nn.Hardtanh", {kNan, 1, -1, 1, -1}},
      {"nn.Hardsigmoid", {kNan, 1, 0, 1, 0}},
      {"nn.Hardswish", {kNan, kInf, kNan, 200, 0}},
      {"nn.SiLU", {kNan, kInf, kNan, 200, 0}},
      {"nn.Sigmoid", {kNan, 1, 0, 1, 0}},
      {"nn.Tanh", {kNan, 1, -1, 1, -1}},
      {"nn.GELU", {kNan, kInf, kNan, 200, 0}},
      {"nn.ELU", {kNan, kInf, -1, 200, -1}},
      {"nn.CELU", {kNan, kInf, -1, 200, -1}},
      {"nn.SELU", {kNan, kInf, -1.7580993175506592, 210.14019775390625, -1.7580993175506592}},
      {"nn.LeakyReLU", {kNan, kInf, -kInf, 200, -2}},
      {"nn.Softplus", {kNan, kInf, 0, 200, 0}},
      {"nn.Softsign", {kNan, kNan, kNan, 0.9950248599052429, -0.9950248599052429}},
      {"nn.Mish", {kNan, kInf, kNan, 200, 0}},
      {"nn.LogSigmoid", {kNan, 0, -kInf, 0, -200}},
      {"nn.Hardshrink", {kNan, kInf, -kInf, 200, -200}},
      {"nn.Softshrink", {kNan, kInf, -kInf, 199.5, -199.5}},
      {"nn.Tanhshrink", {kNan, kInf, -kInf, 199, -199}},
  };
  for (const SpecialCase& special : cases) {
    SCOPED_TRACE(special.type);
    const Tensor x = Tensor::From<double>({kNan, kInf, -kInf, 200, -200}, {5});
    const Tensor expected = Tensor::From(std::span(special.expected), {5});
    for (DType dtype : {DType::kF32, DType::kF64}) {
      OperatorCase(special.type)
          .Input(x.To(dtype))
          .ExpectOutputs({expected.To(dtype)}, {1e-6, 1e-6});
    }
  }
}

TEST(Activation, Integers) {
  const Tensor x = RangeTensor(DType::kI32, {20}, -10);
  Tensor relu(DType::kI32, {20}), relu6(DType::kI32, {20});
  for (int i = 0; i < 20; ++i) {
    relu.data<int32_t>()[i] = std::max(i - 10, 0);
    relu6.data<int32_t>()[i] = std::clamp(i - 10, 0, 6);
  }
  OperatorCase("nn.ReLU").Input(x).ExpectOutputs({relu});
  OperatorCase("F.relu6").Input(x).ExpectOutputs({relu6});
  OperatorCase("F.hardtanh")
      .Input(RangeTensor(DType::kU8, {3}))
      .ExpectOutputs({Tensor::From<uint8_t>({0, 1, 1}, {3})});
  OperatorCase("F.hardtanh")
      .Param("max_val", "-0.5")
      .Input(RangeTensor(DType::kU8, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "u8 has no negative max_val");
}

TEST(Activation, FractionsOfIntegersAndComplexNumbers) {
  OperatorCase("nn.Softsign")
      .Input(Tensor::From<int64_t>({-3, 0, 4}, {3}))
      .ExpectOutputs({Tensor::From<float>({-0.75f, 0, 0.8f}, {3})});
  OperatorCase("F.tanhshrink")
      .Input(Tensor::From<int32_t>({-20, 0, 20}, {3}))
      .ExpectOutputs({Tensor::From<float>({-19, 0, 19}, {3})});
  OperatorCase("F.softsign")
      .Input(Tensor::From<std::complex<float>>({{3, 4}}, {1}))
      .ExpectOutputs({Tensor::From<std::complex<float>>({{0.5f, 4.0f / 6}}, {1})});
}

TEST(Activation, RefusesWrongArguments) {
  const Tensor x = RangeTensor(DType::kF32, {4});
  OperatorCase("nn.SiLU")
      .Input(RangeTensor(DType::kI32, {4}))
      .ExpectError(ErrorCode::kInvalidArgument, "'input' has dtype i32");
  OperatorCase("nn.GELU")
      .Param("approximate", "cubic")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "approximate");
  OperatorCase("nn.Threshold")
      .Param("threshold", "1")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "'value' is missing");
  OperatorCase("nn.ReLU")
      .Param("slope", "1")
      .Input(x)
      .ExpectError(ErrorCode::kUnsupported, "unknown parameter slope");
  OperatorCase("nn.ReLU").ExpectError(ErrorCode::kInvalidModel, "'input' is missing");
}

}  // namespace
}  // namespace oort::testing
