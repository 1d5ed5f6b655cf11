// SPDX-License-Identifier: MIT
// Operators that multiply in bf16 answer as in f32 with factors that were rounded before.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "cpu/gemm.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

Tensor RoundedToBf16(const Tensor& tensor) { return tensor.To(DType::kBF16).To(DType::kF32); }

Tolerance SumsOf(double terms) { return {1e-6 * terms, 1e-5}; }

struct PrecisionCase {
  std::string type;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<Tensor> inputs;
  std::vector<std::pair<std::string, Tensor>> attributes;
  Tensor bias;  // never rounded

  OperatorCase Make(bool rounded, const std::string& precision) const {
    const auto factor = [&](const Tensor& t) { return rounded ? RoundedToBf16(t) : t; };
    OperatorCase made(type);
    for (const auto& [key, text] : params) made.Param(key, text);
    if (!precision.empty()) made.Param("precision", precision);
    for (const Tensor& input : inputs) made.Input(factor(input));
    for (const auto& [name, value] : attributes) made.Attribute(name, factor(value));
    if (bias.defined()) made.Attribute("bias", bias);
    return made;
  }

  /// bf16 of these factors is f32 of rounded ones; and not f32 of these.
  void Expect(double terms) const {
    SCOPED_TRACE(type);
    const std::vector<Tensor> expected = Make(true, "f32").Run();
    Make(false, "bf16").ExpectOutputs(expected, SumsOf(terms));
    const Tensor exact = Make(false, "").Run()[0];
    double difference = 0;
    for (int64_t i = 0; i < exact.elements(); ++i) {
      difference = std::max<double>(
          difference, std::fabs(exact.data<float>()[i] - expected[0].data<float>()[i]));
    }
    EXPECT_GT(difference, 1e-4) << "rounding changed nothing";
  }
};

/// Whether the unit for bf16 multiplies so many factors at once that fewer stay in f32.
bool LeavesShortSums(Isa isa) { return GemmKernelsFor(isa, Precision::kBF16).windows != nullptr; }

/// bf16 is f32 of the same factors, to the bit, where such a unit leaves short sums alone.
void ExpectShortSums(const PrecisionCase& c, double terms) {
  const std::span<const Isa> isas = SupportedIsas();
  if (std::none_of(isas.begin(), isas.end(), LeavesShortSums)) return c.Expect(terms);
  if (!LeavesShortSums(DefaultIsa())) return;
  ExpectNear(c.Make(false, "bf16").Run()[0], c.Make(false, "f32").Run()[0], {0, 0});
}

TEST(Precision, ConvolvesNhwc) {
  for (const int64_t channels : {3, 6, 16, 32, 33, 64}) {
    for (const int64_t kernel : {1, 3}) {
      const bool few = kernel == 1 && channels < GemmWindowKernels::kStep;
      for (const std::string stride : {"(1,1)", "(2,2)"}) {
        PrecisionCase c;
        c.type = "nhwc.Conv2d";
        c.params = {{"padding", kernel == 3 ? "(1,1)" : "(0,0)"},
                    {"stride", stride},
                    {"activation", "relu"}};
        c.inputs = {RandomTensor(DType::kF32, {2, 9, 7, channels}, 1)};
        c.attributes = {{"weight", RandomTensor(DType::kF32, {21, channels, kernel, kernel}, 2)}};
        c.bias = RandomTensor(DType::kF32, {21}, 3);
        const double terms = static_cast<double>(channels * kernel * kernel);
        if (few) {
          ExpectShortSums(c, terms);
        } else {
          c.Expect(terms);
        }
      }
    }
  }
}

TEST(Precision, ScalesBeforeItRounds) {
  for (const int64_t pixels : {1, 6}) {
    const Tensor x = RandomTensor(DType::kF32, {1, 7, pixels, 40}, 1);
    const Tensor scale = RandomTensor(DType::kF32, {1, 1, 1, 40}, 2);
    const Tensor weight = RandomTensor(DType::kF32, {21, 40, 1, 1}, 3);
    Tensor scaled(DType::kF32, x.shape());
    for (int64_t i = 0; i < x.elements(); ++i) {
      scaled.data<float>()[i] = x.data<float>()[i] * scale.data<float>()[i % 40];
    }
    const std::vector<Tensor> expected = OperatorCase("nhwc.Conv2d")
                                             .Attribute("weight", RoundedToBf16(weight))
                                             .Input(RoundedToBf16(scaled), "input")
                                             .Run();
    OperatorCase("nhwc.Conv2d")
        .Attribute("weight", weight)
        .Param("precision", "bf16")
        .Input(x, "input")
        .Input(scale, "scale")
        .ExpectOutputs(expected, SumsOf(40));
  }
}

TEST(Precision, ConvolvesGroups) {
  PrecisionCase c;
  c.type = "nhwc.Conv2d";
  c.params = {{"padding", "(1,1)"}, {"groups", "2"}};
  c.inputs = {RandomTensor(DType::kF32, {1, 8, 8, 20}, 1)};
  c.attributes = {{"weight", RandomTensor(DType::kF32, {14, 10, 3, 3}, 2)}};
  c.Expect(90);
}

TEST(Precision, ConvolvesPlanes) {
  for (const int64_t kernel : {1, 3}) {
    PrecisionCase c;
    c.type = "nn.Conv2d";
    c.params = {{"padding", kernel == 3 ? "(1,1)" : "(0,0)"}, {"bias", "True"}};
    c.inputs = {RandomTensor(DType::kF32, {2, 10, 9, 7}, 1)};
    c.attributes = {{"weight", RandomTensor(DType::kF32, {13, 10, kernel, kernel}, 2)}};
    c.bias = RandomTensor(DType::kF32, {13}, 3);
    if (kernel == 1) {
      ExpectShortSums(c, 10);  // a pass may choose NHWC
    } else {
      c.Expect(90);
    }
  }
}

TEST(Precision, MultipliesRows) {
  for (const int64_t in : {5, 64, 131}) {
    for (const std::string type : {"nn.Linear", "oort.Linear"}) {
      PrecisionCase c;
      c.type = type;
      c.inputs = {RandomTensor(DType::kF32, {3, 7, in}, 1)};
      c.attributes = {{"weight", RandomTensor(DType::kF32, {19, in}, 2)}};
      c.bias = RandomTensor(DType::kF32, {19}, 3);
      c.Expect(static_cast<double>(in));
    }
    PrecisionCase c;
    c.type = "torch.matmul";
    c.inputs = {RandomTensor(DType::kF32, {3, 7, in}, 1), RandomTensor(DType::kF32, {3, in, 9}, 2)};
    c.Expect(static_cast<double>(in));
  }
}

TEST(Precision, LeavesDepthwiseConvolutionsInF32) {
  const Tensor x = RandomTensor(DType::kF32, {1, 8, 8, 6}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {6, 1, 3, 3}, 2);
  const auto make = [&](const char* precision) {
    return OperatorCase("nhwc.Conv2d")
        .Input(x)
        .Attribute("weight", weight)
        .Param("groups", "6")
        .Param("precision", precision);
  };
  make("bf16").ExpectOutputs(make("f32").Run(), {1e-6, 1e-6});
}

TEST(Precision, RefusesOtherNames) {
  OperatorCase("nn.Linear")
      .Input(RandomTensor(DType::kF32, {2, 3}, 1))
      .Attribute("weight", RandomTensor(DType::kF32, {4, 3}, 2))
      .Param("precision", "f8")
      .ExpectError(ErrorCode::kInvalidModel, "precision");
}

/// y = W2 relu(W1 x), the second with a precision of its own.
Graph TwoLinears(const char* second) {
  Graph graph;
  const auto operand = [&](const char* name, int producer) {
    graph.operands.push_back({});
    graph.operands.back().name = name;
    graph.operands.back().producer = producer;
    return static_cast<int>(graph.operands.size()) - 1;
  };
  const auto add = [&](const char* type, const char* name, std::vector<int> inputs) {
    Operator op;
    op.type = type;
    op.name = name;
    op.inputs = std::move(inputs);
    for (int input : op.inputs) {
      graph.operands[static_cast<size_t>(input)].consumers.push_back(
          static_cast<int>(graph.operators.size()));
    }
    graph.operators.push_back(std::move(op));
    return static_cast<int>(graph.operators.size()) - 1;
  };
  const auto give = [&](int op, const char* name) {
    const int result = operand(name, op);
    graph.operators[static_cast<size_t>(op)].outputs = {result};
    return result;
  };
  const int x = give(add("pnnx.Input", "pnnx_input_0", {}), "x");
  const int first = add("nn.Linear", "first", {x});
  graph.operators.back().attributes["weight"] = RandomTensor(DType::kF32, {16, 24}, 1);
  const int hidden = give(first, "hidden");
  const int last = add("nn.Linear", "last", {hidden});
  graph.operators.back().attributes["weight"] = RandomTensor(DType::kF32, {5, 16}, 2);
  if (second != nullptr) graph.operators.back().params.emplace("precision", Parameter(second));
  const int y = give(last, "y");
  add("pnnx.Output", "pnnx_output_0", {y});
  return graph;
}

std::string PrecisionIn(const RuntimeGraph& graph, const std::string& name) {
  for (const Operator& op : graph.graph().operators) {
    if (op.name != name) continue;
    const auto found = op.params.find("precision");
    return found == op.params.end() ? "" : found->second.text();
  }
  return "no operator";
}

TEST(Precision, IsSetForTheWholeModelUnlessTheFileSaysOtherwise) {
  LoadOptions options;
  options.disabled_passes = {"all"};
  EXPECT_EQ(PrecisionIn(*RuntimeGraph::Build(TwoLinears(nullptr), options), "first"), "");
  options.precision = Precision::kBF16;
  const auto both = RuntimeGraph::Build(TwoLinears(nullptr), options);
  EXPECT_EQ(both->precision(), Precision::kBF16);
  EXPECT_EQ(PrecisionIn(*both, "first"), "bf16");
  EXPECT_EQ(PrecisionIn(*both, "last"), "bf16");
  const auto one = RuntimeGraph::Build(TwoLinears("f32"), options);
  EXPECT_EQ(PrecisionIn(*one, "first"), "bf16");
  EXPECT_EQ(PrecisionIn(*one, "last"), "f32");
}

}  // namespace
}  // namespace oort::testing
