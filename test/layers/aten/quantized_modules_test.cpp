// SPDX-License-Identifier: MIT
// Quantizing and back. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "aten_values.h"

namespace oort::testing {
namespace {

/// quantize, then `reader`.
std::vector<Tensor> Quantized(std::map<std::string, Parameter> params, const Tensor& x,
                              const char* reader = "torch.dequantize") {
  Graph graph;
  const int in = graph.AddOperand("in"), q = graph.AddOperand("q"), out = graph.AddOperand("out");
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
  graph.AddOperator({.type = "torch.quantize_per_tensor",
                     .name = "quantize",
                     .inputs = {in},
                     .outputs = {q},
                     .params = std::move(params)});
  graph.AddOperator({.type = reader, .name = "read", .inputs = {q}, .outputs = {out}});
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
  return Session(RuntimeGraph::Build(std::move(graph))).Forward({x});
}

std::map<std::string, Parameter> Quantizer(const char* scale, const char* zero_point,
                                           const char* dtype) {
  return {{"scale", Parameter(scale)},
          {"zero_point", Parameter(zero_point)},
          {"dtype", Parameter(dtype)}};
}

TEST(AtenQuantized, RoundsToStepsAndSaturates) {
  const Tensor x = F({-100, -1.06f, -0.25f, 0, 0.04f, 0.37f, 3, 1e9f, INFINITY, -INFINITY}, {10});
  ExpectNear(Quantized(Quantizer("0.1", "3", "torch.quint8"), x)[0],
             F({-0.3f, -0.3f, -0.2f, 0, 0, 0.4f, 3, 25.2f, 25.2f, -0.3f}, {10}));
  ExpectNear(Quantized(Quantizer("0.1", "-7", "torch.qint8"), x)[0],
             F({-12.1f, -1.1f, -0.2f, 0, 0, 0.4f, 3, 13.4f, 13.4f, -12.1f}, {10}));
  ExpectNear(
      Quantized(Quantizer("0.1", "0", "14"), x)[0],
      F({-100, -1.1f, -0.2f, 0, 0, 0.4f, 3, 214748368.0f, 214748368.0f, -214748368.0f}, {10}));
  // torch's answer to what is no number depends on the processor; here it is the zero point.
  ExpectNear(Quantized(Quantizer("0.1", "3", "13"), F({NAN}, {1}))[0], F({0}, {1}));
  ExpectNear(Quantized(Quantizer("0.1", "3", "13"), F({}, {0}))[0], F({}, {0}));
}

/// A dense layer between quantizing (0.5, 10) and back; its outputs have (0.1, 20).
Tensor QuantizedDense(const char* type, const Tensor& x, std::map<std::string, Tensor> attributes) {
  Graph graph;
  const int in = graph.AddOperand("in"), q = graph.AddOperand("q"), y = graph.AddOperand("y"),
            out = graph.AddOperand("out");
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
  graph.AddOperator({.type = "nn.quantized.Quantize",
                     .name = "quantize",
                     .inputs = {in},
                     .outputs = {q},
                     .params = Quantizer("0.5", "10", "torch.quint8")});
  Operator module{.type = type, .name = "module", .inputs = {q}, .outputs = {y}};
  module.params = {{"scale", Parameter("0.1")}, {"zero_point", Parameter("20")}};
  module.attributes = std::move(attributes);
  graph.AddOperator(std::move(module));
  graph.AddOperator(
      {.type = "nn.quantized.DeQuantize", .name = "d", .inputs = {y}, .outputs = {out}});
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
  return Session(RuntimeGraph::Build(std::move(graph))).Forward({x})[0];
}

std::map<std::string, Tensor> DenseAttributes(Shape weight) {
  return {{"weight", Tensor::From<int8_t>({2, -3, 4, 1}, weight)},
          {"bias", F({0.5, -1.5}, {2})},
          {"weight.q_per_channel_scales", D({0.1, 0.2}, {2})},
          {"weight.q_per_channel_zero_points", I({0, 0}, {2})}};
}

TEST(AtenQuantized, ComputesModulesWithAScaleForEachChannel) {
  const Tensor x = F({1, 2, 1.1f, -3}, {2, 2});
  const auto attributes = DenseAttributes({2, 2});
  ExpectNear(QuantizedDense("nn.quantized.Linear", x, attributes),
             F({0.1f, -0.3f, 1.6f, -1.3f}, {2, 2}));
  ExpectNear(QuantizedDense("nn.intrinsic.quantized.LinearReLU", x, attributes),
             F({0.1f, 0, 1.6f, 0}, {2, 2}));
  // A kernel of one element does the same for each pixel; results are cut off at what u8 holds.
  const Tensor image = F({1, 1.1f, 90, 2, -3, 90}, {1, 2, 1, 3});
  const auto kernel = DenseAttributes({2, 2, 1, 1});
  ExpectNear(QuantizedDense("nn.quantized.Conv2d", image, kernel),
             F({0.1f, 1.6f, -2.0f, -0.3f, -1.3f, 23.5f}, {1, 2, 1, 3}));
  ExpectNear(QuantizedDense("nn.intrinsic.quantized.ConvReLU2d", image, kernel),
             F({0.1f, 1.6f, 0, 0, 0, 23.5f}, {1, 2, 1, 3}));
}

TEST(AtenQuantized, RefusesWeightsWhoseScaleIsLost) {
  auto attributes = DenseAttributes({2, 2});
  attributes.erase("weight.q_per_channel_scales");
  attributes.erase("weight.q_per_channel_zero_points");
  try {
    QuantizedDense("nn.quantized.Linear", F({1, 2}, {1, 2}), attributes);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("quantize them per channel"), std::string::npos);
  }
  attributes = DenseAttributes({2, 2});
  attributes["weight.q_per_channel_scales"] = D({0.1}, {1});
  EXPECT_THROW(QuantizedDense("nn.quantized.Linear", F({1, 2}, {1, 2}), attributes), Error);
}

TEST(AtenQuantized, GivesTheIntegers) {
  ExpectNear(Quantized(Quantizer("0.1", "3", "13"), F({-1, 0, 0.5f}, {3}), "aten::int_repr")[0],
             I({0, 3, 8}, {3}).To(DType::kU8));
}

TEST(AtenQuantized, RefusesWhatWouldReadTheIntegers) {
  const Tensor x = F({1, 2}, {2});
  EXPECT_THROW(Quantized(Quantizer("0.1", "3", "13"), x, "torch.exp"), Error);
  EXPECT_THROW(Quantized(Quantizer("0.1", "3", "14"), x, "F.relu"), Error);
  EXPECT_THROW(Quantized(Quantizer("0", "3", "13"), x), Error);
  EXPECT_THROW(Quantized(Quantizer("0.1", "300", "13"), x), Error);
  EXPECT_THROW(Quantized(Quantizer("0.1", "3", "6"), x), Error);
  OperatorCase("torch.dequantize")
      .Input(I({1}, {1}).To(DType::kU8))
      .ExpectError(ErrorCode::kUnsupported, "not in the file");
}

}  // namespace
}  // namespace oort::testing
