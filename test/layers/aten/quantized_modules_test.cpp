// SPDX-License-Identifier: MIT
// Quantized modules. Expected values are torch's.
#include <gtest/gtest.h>

#include "quantizer_params.h"

namespace oort::testing {
namespace {

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

TEST(QuantizedModules, ComputesModulesWithAScaleForEachChannel) {
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

TEST(QuantizedModules, RefusesWeightsWhoseScaleIsLost) {
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

}  // namespace
}  // namespace oort::testing
