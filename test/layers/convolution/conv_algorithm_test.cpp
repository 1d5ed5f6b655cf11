// SPDX-License-Identifier: MIT
// Every algorithm on problems that it accepts, also where another one would be taken, and which one
// is taken where none is asked for.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "layers/convolution/conv_reference.h"
#include "layers/convolution/nhwc/conv_algorithms.h"
#include "layers/convolution/planar/conv_algorithms.h"
#include "layers/convolution/winograd/winograd.h"
#include "layers/layout/nhwc_reference.h"
#include "oort/runtime_graph.h"
#include "oort/testing.h"
#include "test/kit/errors.h"

namespace oort::testing {
namespace {

struct AlgorithmCase {
  Shape image, weight;  // channels first
  int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
  bool addend = false;

  std::string text() const { return image.ToString() + " by " + weight.ToString(); }
  double terms() const { return static_cast<double>(weight.Product(1, weight.rank())); }
  /// As pnnx writes the parameters of `rank` axes.
  NamedParams params(int rank) const {
    const auto tuple = [&](int64_t value) { return TupleText({value, value, value}, rank); };
    return {{"stride", tuple(stride)},
            {"padding", tuple(pad)},
            {"dilation", tuple(dilation)},
            {"groups", std::to_string(groups)}};
  }
};

// Sizes for which none of Winograd's algorithms would pay, odd channels, and what is left over.
const AlgorithmCase kNhwcCases[] = {
    {{1, 5, 7, 9}, {6, 5, 3, 3}, 1, 1},
    {{2, 24, 13, 6}, {40, 24, 3, 3}, 1, 1, 1, 1, true},
    {{1, 3, 8, 8}, {70, 3, 3, 3}, 1, 0},
    {{2, 17, 9, 11}, {20, 17, 3, 3}, 2, 1},
    {{1, 32, 6, 6}, {33, 32, 3, 3}, 2, 1, 1, 1, true},
    {{1, 16, 9, 9}, {12, 16, 3, 3}, 1, 2, 2},
    {{1, 12, 6, 5}, {18, 4, 3, 3}, 1, 1, 1, 3},
    {{1, 20, 7, 6}, {20, 1, 3, 3}, 1, 1, 1, 20},
    {{2, 9, 8, 7}, {9, 1, 5, 5}, 2, 2, 1, 9, true},
    {{1, 40, 5, 7}, {24, 40, 1, 1}},
    {{2, 64, 4, 4}, {16, 64, 1, 1}, 1, 0, 1, 1, true},
    {{1, 3, 20, 18}, {24, 3, 7, 7}, 2, 3},
};

NhwcConvProblem ProblemOf(const AlgorithmCase& c, Isa isa, Precision precision) {
  NhwcConvProblem problem;
  problem.isa = isa;
  problem.precision = precision;
  problem.weight = c.weight;
  problem.groups = c.groups;
  problem.stride = {c.stride, c.stride};
  problem.dilation = {c.dilation, c.dilation};
  problem.more_inputs = c.addend;
  return problem;
}

/// The algorithm that a network of one convolution takes; all shapes are traced unless said.
std::string TakenBy(const std::string& type, const AlgorithmCase& c, const LoadOptions& options,
                    bool traced = true, DType dtype = DType::kF32) {
  const bool nhwc = type.starts_with("nhwc.");
  const int rank = c.weight.rank() - 2;
  Operator conv;
  conv.type = type;
  conv.name = "conv";
  for (const auto& [key, text] : c.params(rank)) conv.params.emplace(key, Parameter(text));
  conv.attributes["weight"] = RandomTensor(DType::kF32, c.weight, 2).To(dtype);
  const Shape shape = nhwc ? ToNhwc(c.image) : c.image;
  Graph graph;
  std::vector<Tensor> inputs;
  const auto add_input = [&](const Shape& of, const char* name) {
    const int index = graph.AddOperand(name);
    Operand& operand = graph.operands[static_cast<size_t>(index)];
    operand.has_shape = traced;
    operand.shape = of;
    Operator port;
    port.type = "pnnx.Input";
    port.name = "pnnx_input_" + std::to_string(inputs.size());
    port.outputs = {index};
    graph.AddOperator(std::move(port));
    conv.inputs.push_back(index);
    conv.input_names.push_back(name);
    inputs.push_back(Tensor::Meta(dtype, of));
  };
  add_input(shape, "input");
  if (c.addend) {
    const ConvGeometry g =
        ConvParams({c.stride, c.stride}, {c.pad, c.pad}, {c.dilation, c.dilation}, c.groups)
            .Geometry(c.image, c.weight);
    add_input(ToNhwc(g.output), "addend");
  }
  conv.outputs = {graph.AddOperand("y")};
  Operator result;
  result.type = "pnnx.Output";
  result.name = "pnnx_output_0";
  result.inputs = conv.outputs;
  graph.AddOperator(std::move(conv));
  graph.AddOperator(std::move(result));
  return std::string(
      RuntimeGraph::Build(std::move(graph), options)->Plan(inputs).nodes.at(0).work.algorithm);
}

std::string TakenByNhwc(const AlgorithmCase& c, Isa isa, Precision precision = Precision::kF32,
                        std::string_view wanted = "", bool traced = true) {
  LoadOptions options;
  options.isa = isa;
  options.precision = precision;
  options.conv_algorithm = wanted;
  options.disabled_passes = {"all"};
  return TakenBy("nhwc.Conv2d", c, options, traced);
}

void ExpectSumsBy(std::string_view algorithm, const AlgorithmCase& c, const NamedParams& more,
                  DType dtype, double rounding) {
  const auto rounded = [&](const Shape& shape, uint64_t seed) {
    return RandomTensor(DType::kF32, shape, seed, -1, 1).To(dtype).To(DType::kF32);
  };
  const Tensor image = rounded(c.image, 1), weight = rounded(c.weight, 2);
  const Tensor bias = rounded({c.weight[0]}, 3);
  const ConvSpec spec = {{1, c.stride, c.stride},
                         {1, c.dilation, c.dilation},
                         {0, c.pad, c.pad},
                         {0, c.pad, c.pad},
                         c.groups};
  Tensor expected =
      WithNhwc(FromVolume(ReferenceConv(ToVolume(image, 2), ToVolume(weight, 2), bias, spec), 2));
  OperatorCase forced("nhwc.Conv2d");
  for (const auto& [key, text] : c.params(2)) forced.Param(key, text);
  for (const auto& [key, text] : more) forced.Param(key, text);
  forced.Param("conv_algorithm", std::string(algorithm)).Param("activation", "relu");
  forced.Attribute("weight", weight).Attribute("bias", bias);
  forced.Input(WithNhwc(image).To(dtype), "input");
  const Tensor addend = rounded(expected.shape(), 4);
  if (c.addend) forced.Input(addend.To(dtype), "addend");
  for (int64_t i = 0; i < expected.elements(); ++i) {
    float& value = expected.data<float>()[i];
    value = std::max(0.0f, value + (c.addend ? addend.data<float>()[i] : 0.0f));
  }
  forced.ExpectOutputs({expected.To(dtype)}, {rounding * std::sqrt(c.terms()), rounding});
}

/// Runs each algorithm on the cases that it accepts; returns those that ran on any.
template <typename T>
std::set<std::string_view> ForceEach(Precision precision, const NamedParams& more,
                                     double rounding) {
  std::set<std::string_view> ran;
  for (const NhwcConvAlgorithm<T>* algorithm : NhwcConvAlgorithms<T>()) {
    SCOPED_TRACE(algorithm->name());
    for (const AlgorithmCase& c : kNhwcCases) {
      SCOPED_TRACE(c.text());
      if (!algorithm->Accepts(ProblemOf(c, DefaultIsa(), precision))) continue;
      ran.insert(algorithm->name());
      ExpectSumsBy(algorithm->name(), c, more, kDTypeOf<T>, rounding);
    }
  }
  return ran;
}

TEST(ConvAlgorithms, EachGivesTheSumsInF32) {
  const std::set<std::string_view> ran = ForceEach<float>(Precision::kF32, {}, 1e-4);
  EXPECT_EQ(ran, (std::set{kConvDepthwise, kConvWinogradF2, kConvWinogradF4, kConvWinogradF6,
                           kConvWinogradStride2, kConvDirect, kConvImplicitGemm}));
}

TEST(ConvAlgorithms, EachGivesTheSumsOfRoundedFactors) {
  const std::set<std::string_view> ran =
      ForceEach<float>(Precision::kBF16, {{"precision", "bf16"}}, 2e-2);
  for (const std::string_view name : {kConvDepthwise, kConvDirect, kConvImplicitGemm}) {
    EXPECT_TRUE(ran.contains(name)) << name;
  }
}

TEST(ConvAlgorithms, EachGivesTheSumsInF16) {
  if (!HasF16Arithmetic(DefaultIsa())) GTEST_SKIP() << "no arithmetic of f16 here";
  const std::set<std::string_view> ran =
      ForceEach<Half>(Precision::kF16, {{"precision", "f16"}}, 1e-2);
  for (const std::string_view name :
       {kConvDepthwise, kConvWinogradF2, kConvWinogradF4, kConvWinogradStride2, kConvDirect}) {
    EXPECT_TRUE(ran.contains(name)) << name;
  }
  EXPECT_FALSE(ran.contains(kConvWinogradF6));
}

TEST(ConvAlgorithms, AreTakenWhereTheyAreWantedAndAccept) {
  for (const Isa isa : SupportedIsas()) {
    for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
      for (const NhwcConvAlgorithm<float>* algorithm : NhwcConvAlgorithms<float>()) {
        for (const AlgorithmCase& c : kNhwcCases) {
          SCOPED_TRACE(c.text());
          const std::string taken = TakenByNhwc(c, isa, precision, algorithm->name());
          if (algorithm->Accepts(ProblemOf(c, isa, precision))) {
            EXPECT_EQ(taken, algorithm->name());
          } else {
            EXPECT_EQ(taken, TakenByNhwc(c, isa, precision))
                << "not as without " << algorithm->name();
          }
        }
      }
    }
  }
}

TEST(ConvAlgorithms, PlanarOnesGiveTheSums) {
  const AlgorithmCase cases[] = {
      {{2, 6, 11}, {6, 1, 3}, 1, 1, 1, 6},
      {{1, 4, 9}, {5, 4, 3}, 2, 1},
      {{1, 7, 8, 9}, {14, 1, 3, 3}, 2, 1, 1, 7},
      {{2, 6, 7, 5}, {4, 3, 3, 3}, 1, 1, 2, 2},
      {{1, 5, 1, 6, 7}, {5, 1, 1, 3, 3}, 1, 0, 1, 5},
      {{1, 3, 4, 5, 6}, {3, 1, 2, 3, 3}, 1, 1, 1, 3},
  };
  for (const AlgorithmCase& c : cases) {
    SCOPED_TRACE(c.text());
    const int rank = c.weight.rank() - 2;
    const Tensor image = RandomTensor(DType::kF32, c.image, 1);
    const Tensor weight = RandomTensor(DType::kF32, c.weight, 2);
    ConvSpec spec;
    spec.groups = c.groups;
    for (size_t i = static_cast<size_t>(3 - rank); i < 3; ++i) {
      spec.stride[i] = c.stride;
      spec.dilation[i] = c.dilation;
      spec.before[i] = spec.after[i] = c.pad;
    }
    const Tensor expected = FromVolume(
        ReferenceConv(ToVolume(image, rank), ToVolume(weight, rank), Tensor(), spec), rank);
    const std::string type = "nn.Conv" + std::to_string(rank) + "d";
    const bool flat = rank < 3 || (c.weight[2] == 1 && c.image[2] == 1 && c.pad == 0);
    LoadOptions options;
    options.disabled_passes = {"all"};
    const bool depthwise = flat && c.groups == c.image[1];
    EXPECT_EQ(TakenBy(type, c, options), depthwise ? "depthwise" : "implicit-gemm");
    for (const PlanarConvAlgorithm* algorithm : PlanarConvAlgorithms()) {
      SCOPED_TRACE(algorithm->name());
      options.conv_algorithm = algorithm->name();
      const bool accepts = depthwise || algorithm->name() != kConvDepthwise;
      EXPECT_EQ(TakenBy(type, c, options) == algorithm->name(), accepts);
      OperatorCase forced(type);
      for (const auto& [key, text] : c.params(rank)) forced.Param(key, text);
      forced.Param("conv_algorithm", std::string(algorithm->name())).Attribute("weight", weight);
      forced.Input(image).ExpectOutputs({expected}, {1e-4, 1e-4});
    }
    options.conv_algorithm.clear();
    EXPECT_EQ(TakenBy(type, c, options, true, DType::kF64), "im2col");
  }
}

TEST(ConvAlgorithms, AreTakenInTheOrderOfTheList) {
  for (const Isa isa : SupportedIsas()) {
    SCOPED_TRACE(Name(isa));
    const auto expect = [&](const AlgorithmCase& c, std::string_view name,
                            Precision precision = Precision::kF32) {
      EXPECT_EQ(TakenByNhwc(c, isa, precision), name) << c.text();
    };
    const AlgorithmCase depthwise = {{1, 32, 28, 28}, {32, 1, 3, 3}, 1, 1, 1, 32};
    const AlgorithmCase pointwise = {{1, 64, 28, 28}, {64, 64, 1, 1}};
    const AlgorithmCase square = {{1, 128, 28, 28}, {128, 128, 3, 3}, 1, 1};
    expect(depthwise, kConvDepthwise);
    expect(depthwise, kConvDepthwise, Precision::kBF16);
    expect(pointwise, kConvDirect);
    expect({{1, 3, 64, 64}, {32, 3, 7, 7}, 2, 3}, kConvDirect);
    expect({{1, 64, 28, 28}, {64, 64, 3, 3}, 1, 2, 2}, kConvDirect);
    expect({{1, 64, 28, 28}, {64, 32, 3, 3}, 1, 1, 1, 2}, kConvDirect);
    expect(pointwise, kConvImplicitGemm, Precision::kBF16);
    const auto variant = WinogradConv::Choose({1, 28, 28, 128, 128}, isa);
    ASSERT_TRUE(variant);
    constexpr std::string_view kNames[] = {kConvWinogradF2, kConvWinogradF4, kConvWinogradF6};
    expect(square, kNames[static_cast<size_t>(*variant)]);
    EXPECT_EQ(TakenByNhwc(square, isa, Precision::kF32, "", false), kConvDirect) << "unknown size";
    const bool unit = GemmKernelsFor(isa, Precision::kBF16).windows != nullptr;
    expect(square, unit ? kConvMatrixUnit : kConvImplicitGemm, Precision::kBF16);
  }
}

TEST(ConvAlgorithms, HaveNamesThatAreKnown) {
  const auto expect_known = [](const auto& list) {
    std::set<std::string_view> names;
    for (const auto* algorithm : list) {
      EXPECT_TRUE(names.insert(algorithm->name()).second) << algorithm->name() << " stands twice";
      EXPECT_TRUE(std::ranges::find(kConvAlgorithmNames, algorithm->name()) !=
                  kConvAlgorithmNames.end())
          << algorithm->name();
    }
  };
  expect_known(NhwcConvAlgorithms<float>());
  expect_known(NhwcConvAlgorithms<Half>());
  expect_known(PlanarConvAlgorithms());
  LoadOptions options;
  options.conv_algorithm = "wino";
  ExpectThrows([&] { TakenBy("nn.Conv2d", kNhwcCases[0], options); }, ErrorCode::kInvalidArgument,
               "one of depthwise, matrix-unit, winograd-f2");
}

}  // namespace
}  // namespace oort::testing
