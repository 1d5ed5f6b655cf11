// SPDX-License-Identifier: MIT
// Quantizing and back. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "quantizer_params.h"

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
  // Here torch gives the least value: what is no number is the zero point on all of our ways.
  ExpectNear(Quantized(Quantizer("0.1", "3", "13"), F({NAN}, {1}))[0], F({0}, {1}));
  ExpectNear(Quantized(Quantizer("0.1", "3", "13"), F({}, {0}))[0], F({}, {0}));
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
