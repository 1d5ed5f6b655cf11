// SPDX-License-Identifier: MIT
#include "graph/pass_check.h"

namespace oort {
namespace {

using testing::RandomTensor;

const std::string kMergeInput = "pnnx.Input pnnx_input_0 0 1 x #x=(?,20)f32\n";

/// nn.Linear of x: "q", 30 gives operand q of (?,30).
std::string LinearOfX(const std::string& name, int rows, bool bias = true,
                      const std::string& input = "x") {
  const std::string extent = std::to_string(rows);
  return "nn.Linear " + name + "_proj 1 1 " + input + " " + name +
         " bias=" + (bias ? "True" : "False") + " in_features=20 out_features=" + extent +
         (bias ? " @bias=(" + extent + ")f32" : "") + " @weight=(" + extent + ",20)f32 #" + input +
         "=(?,20)f32 #" + name + "=(?," + extent + ")f32\n";
}

void ExpectSameForAllRows(const std::string& graph) {
  for (int64_t rows : {0, 1, 2, 9, 50}) {
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {rows, 20}, 7, -4, 4)}, kBitForBit);
  }
  // Other ranks and dtypes than the trace had.
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 3, 20}, 8)}, kBitForBit);
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {20}, 8)}, kBitForBit);
  ExpectSameAnswers(graph, {RandomTensor(DType::kF16, {4, 20}, 8)}, kBitForBit);
}

TEST(MergeLinear, MakesOneProductOfThoseOfOneOperand) {
  // Rows that fill panels and rows that do not, biases that are there and that are not.
  for (const auto& [q, k, v] : {std::array{32, 32, 32}, {30, 1, 17}, {8, 48, 3}}) {
    for (bool bias : {true, false}) {
      SCOPED_TRACE(std::to_string(q) + " " + std::to_string(k) + " " + std::to_string(v));
      const std::string graph = kMergeInput + LinearOfX("q", q) + LinearOfX("k", k, bias) +
                                LinearOfX("v", v) + "pnnx.Output pnnx_output_0 3 0 v q k\n";
      EXPECT_EQ(TypesAfter(graph, MergeLinear), "oort.MergedLinear");
      ExpectSameForAllRows(graph);
    }
  }
}

TEST(MergeLinear, TakesTheGateAndWhatPassesIt) {
  const std::string graph = kMergeInput + LinearOfX("g", 40, false) + LinearOfX("u", 40, false) +
                            "F.silu silu 1 1 g s $input=g #s=(?,40)f32\n"
                            "pnnx.Expression mul 2 1 s u y expr=mul(@0,@1) #y=(?,40)f32\n"
                            "pnnx.Output pnnx_output_0 1 0 y\n";
  EXPECT_EQ(TypesAfter(graph, MergeLinear), "oort.MergedLinear F.silu pnnx.Expression");
  ExpectSameForAllRows(graph);
}

TEST(MergeLinear, LeavesWhatIsBetterOffAlone) {
  // An activation or a sum that goes into its product.
  const std::string activated = kMergeInput + LinearOfX("a", 16) + LinearOfX("b", 16) +
                                "F.relu relu 1 1 a r $input=a #r=(?,16)f32\n"
                                "pnnx.Output pnnx_output_0 2 0 r b\n";
  EXPECT_EQ(TypesAfter(activated, MergeLinear), "nn.Linear nn.Linear F.relu");
  ExpectSameForAllRows(activated);
  const std::string summed = kMergeInput + LinearOfX("a", 20) + LinearOfX("b", 16) +
                             "pnnx.Expression add 2 1 a x s expr=add(@0,@1) #s=(?,20)f32\n"
                             "pnnx.Output pnnx_output_0 2 0 s b\n";
  EXPECT_EQ(TypesAfter(summed, MergeLinear), "nn.Linear nn.Linear pnnx.Expression");
  ExpectSameForAllRows(summed);
  // Of different operands, alone, of another dtype, or with parameters that contradict the weights.
  EXPECT_EQ(TypesAfter(kMergeInput + LinearOfX("a", 20) + LinearOfX("b", 16, true, "a") +
                           "pnnx.Output pnnx_output_0 1 0 b\n",
                       MergeLinear),
            "nn.Linear nn.Linear");
  for (const char* other : {"nn.Linear b_proj 1 1 x b @weight=(16,20)f64",
                            "nn.Linear b_proj 1 1 x b in_features=7 @weight=(16,20)f32"}) {
    EXPECT_EQ(TypesAfter(kMergeInput + LinearOfX("a", 20) + other +
                             "\npnnx.Output pnnx_output_0 2 0 a b\n",
                         MergeLinear),
              "nn.Linear nn.Linear");
  }
}

TEST(MergeLinear, IsNotForOtherDevicesOrF16) {
  const std::string lines =
      kMergeInput + LinearOfX("a", 20) + LinearOfX("b", 16) + "pnnx.Output pnnx_output_0 2 0 a b\n";
  PassContext elsewhere = NothingEvaluated(), narrow = NothingEvaluated();
  elsewhere.has_layer = [](std::string_view type) { return type == "nn.Linear"; };
  narrow.narrow = DType::kF16;
  for (const PassContext& context : {elsewhere, narrow}) {
    Graph graph = RandomGraph(lines);
    MergeLinear(graph, context);
    EXPECT_EQ(graph.operators.size(), 4u);
  }
}

TEST(MergeLinear, IsSwitchedOffByItsName) {
  const std::string lines =
      kMergeInput + LinearOfX("a", 20) + LinearOfX("b", 16) + "pnnx.Output pnnx_output_0 2 0 a b\n";
  const auto count = [&](const LoadOptions& options) {
    return RuntimeGraph::Build(RandomGraph(lines), options)->graph().operators.size();
  };
  LoadOptions off;
  off.disabled_passes = {"merge-linear"};
  EXPECT_EQ(count({}), 3u);
  EXPECT_EQ(count(off), 4u);
}

}  // namespace
}  // namespace oort
