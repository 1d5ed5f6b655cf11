// SPDX-License-Identifier: MIT
// Passes over operators that work element by element, and over those that stand twice.
#include "graph/pass_check.h"
#include "graph/passes/formula.h"

namespace oort {
namespace {

using testing::RandomTensor;

TEST(Formula, ReadsAndWritesCalls) {
  for (const char* text : {"@0", "0.5", "add(@0,mul(@1,-1e-5))", "clamp(@0,None,6)", "f(@12)"}) {
    const auto formula = ParseFormula(text);
    ASSERT_TRUE(formula) << text;
    EXPECT_EQ(formula->ToText(), text);
  }
  EXPECT_EQ(ParseFormula("add(@0,@1)")->args[1].operand(), 1);
  EXPECT_EQ(ParseFormula("0.5")->number(), 0.5);
  EXPECT_FALSE(ParseFormula("@0")->number());
  for (const char* text :
       {"", "add(", "add(@0", "add(@0,)", "add(@0))", "[@0,@1]", "add(@0) ", "()", "add(@0,[1])"}) {
    EXPECT_FALSE(ParseFormula(text)) << text;
  }
  std::string deep = "@0";
  for (int i = 0; i < 5000; ++i) deep = "neg(" + deep + ")";
  EXPECT_FALSE(ParseFormula(deep));
}

std::string ExpressionAfter(const std::string& lines) {
  Graph graph = RandomGraph(lines);
  FuseExpressions(graph, NothingEvaluated());
  RemoveDeadCode(graph, NothingEvaluated());
  EXPECT_TRUE(graph.Check().empty());
  std::string texts;
  for (const Operator& op : graph.operators) {
    if (op.IsPort()) continue;
    const auto expr = op.params.find("expr");
    texts += (texts.empty() ? "" : " ") + (expr == op.params.end() ? op.type : expr->second.text());
  }
  return texts;
}

const std::string kTwoInputs =
    "pnnx.Input pnnx_input_0 0 1 0 #0=(?,8)f32\n"
    "pnnx.Input pnnx_input_1 0 1 1 #1=(?,8)f32\n";

TEST(FuseExpressions, InlinesWhatHasOneReader) {
  const std::string graph = kTwoInputs +
                            "pnnx.Expression a 2 1 0 1 2 expr=add(@0,mul(@1,2)) #2=(?,8)f32\n"
                            "nn.ReLU b 1 1 2 3 #3=(?,8)f32\n"
                            "torch.exp c 1 1 1 4 #4=(?,8)f32\n"
                            "pnnx.Expression d 3 1 4 3 1 5 expr=sub(div(@0,@2),@1) #5=(?,8)f32\n"
                            "pnnx.Output pnnx_output_0 1 0 5\n";
  EXPECT_EQ(ExpressionAfter(graph), "sub(div(exp(@1),@1),relu(add(@0,mul(@1,2))))");
  ExpectSameAnswers(graph,
                    {RandomTensor(DType::kF32, {3, 8}, 1), RandomTensor(DType::kF32, {3, 8}, 2)},
                    kBitForBit);
  ExpectSameAnswers(graph,
                    {RandomTensor(DType::kF32, {8}, 1), RandomTensor(DType::kF32, {5, 1, 8}, 2)},
                    kBitForBit);
  ExpectSameAnswers(graph,
                    {RandomTensor(DType::kF64, {3, 8}, 1), RandomTensor(DType::kF32, {3, 8}, 2)},
                    {1e-12, 1e-12});
}

TEST(FuseExpressions, LeavesTheRest) {
  const std::string head = kTwoInputs + "nn.ReLU a 1 1 0 2 #2=(?,8)f32\n";
  const std::string tail = "pnnx.Output pnnx_output_0 1 0 3\n";
  // Read twice, by two or in one formula.
  EXPECT_EQ(ExpressionAfter(head + "pnnx.Expression b 2 1 2 1 3 expr=add(@0,@1) #3=(?,8)f32\n" +
                            "pnnx.Output pnnx_output_0 2 0 2 3\n"),
            "nn.ReLU add(@0,@1)");
  EXPECT_EQ(
      ExpressionAfter(head + "pnnx.Expression b 1 1 2 3 expr=mul(@0,@0) #3=(?,8)f32\n" + tail),
      "nn.ReLU mul(@0,@0)");
  // Smaller than the result: it would be computed again for each row.
  EXPECT_EQ(ExpressionAfter(kTwoInputs + "pnnx.Attribute w 0 1 5 @data=(8)f32 #5=(8)f32\n" +
                            "nn.Sigmoid a 1 1 5 2 #2=(8)f32\n" +
                            "pnnx.Expression b 2 1 2 1 3 expr=add(@0,@1) #3=(?,8)f32\n" + tail),
            "nn.Sigmoid add(@0,@1)");
  // Sizes, lists, other dtypes, other operators.
  for (const char* other :
       {"pnnx.Expression b 1 1 2 3 expr=size(@0,0)", "pnnx.Expression b 1 1 2 3 expr=[@0]",
        "pnnx.Expression b 2 1 2 1 3 expr=lt(@0,@1) #3=(?,8)bool",
        "nn.Softmax b 1 1 2 3 dim=1 #3=(?,8)f32"}) {
    EXPECT_EQ(ExpressionAfter(head + other + "\n" + tail).substr(0, 7), "nn.ReLU") << other;
  }
}

TEST(FuseExpressions, StopsAtAReasonableSize) {
  std::string graph = "pnnx.Input pnnx_input_0 0 1 0 #0=(?,8)f32\n";
  for (int i = 0; i < 100; ++i) {
    graph += "nn.ReLU r" + std::to_string(i) + " 1 1 " + std::to_string(i) + " " +
             std::to_string(i + 1) + " #" + std::to_string(i + 1) + "=(?,8)f32\n";
  }
  graph += "pnnx.Output pnnx_output_0 1 0 100\n";
  const std::string texts = ExpressionAfter(graph);
  EXPECT_GE(std::count(texts.begin(), texts.end(), ' '), 1);
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {3, 8}, 1)}, kBitForBit);
}

TEST(MatchActivations, ReadsGeluInEverySpelling) {
  const std::string input = "pnnx.Input pnnx_input_0 0 1 0 #0=(?,8)f32\n";
  const std::string output = "pnnx.Output pnnx_output_0 1 0 9\n";
  const auto expression = [&](const std::string& text) {
    return input + "pnnx.Expression e 1 1 0 9 expr=" + text + " #9=(?,8)f32\n" + output;
  };
  for (const char* text :
       {"mul(mul(@0,0.5),add(erf(div(@0,1.41421356)),1.0))",
        "mul(mul(0.5,@0),add(1,erf(mul(@0,0.707106781))))",
        "mul(mul(@0,0.5),add(1.0,tanh(mul(0.797884561,add(@0,mul(0.044715,pow(@0,3.0)))))))",
        "mul(0.5,mul(@0,add(tanh(mul(mul(@0,0.797884561),add(1,mul(mul(@0,0.044715),@0)))),1)))"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(TypesAfter(expression(text), MatchActivations), "F.gelu");
    ExpectSameAnswers(expression(text), {RandomTensor(DType::kF32, {9, 8}, 1, -6, 6)});
  }
  EXPECT_EQ(TypesAfter(expression("mul(@0,sigmoid(@0))"), MatchActivations), "F.silu");
  ExpectSameAnswers(expression("mul(@0,sigmoid(@0))"), {RandomTensor(DType::kF32, {9, 8}, 1)});
  for (const char* text :
       {"mul(mul(@0,0.5),add(erf(div(@0,1.5)),1.0))",
        "mul(mul(@0,0.25),add(erf(div(@0,1.41421356)),1.0))", "mul(@0,sigmoid(mul(@0,1.702)))",
        "mul(mul(@0,0.5),add(erf(div(@0,1.41421356)),2.0))", "add(mul(@0,0.5),erf(@0))",
        "mul(sigmoid(@0),sigmoid(@0))"}) {
    EXPECT_EQ(TypesAfter(expression(text), MatchActivations), "pnnx.Expression") << text;
  }
}

TEST(MatchActivations, ReadsAcrossOperators) {
  const std::string graph =
      "pnnx.Input pnnx_input_0 0 1 0 #0=(?,8)f32\n"
      "pnnx.Expression a 2 1 0 0 1 expr=mul(add(@0,mul(pow(@1,3.0),0.044715)),0.797884583) "
      "#1=(?,8)f32\n"
      "F.tanh b 1 1 1 2 #2=(?,8)f32\n"
      "pnnx.Expression c 2 1 0 2 3 expr=mul(mul(@0,0.5),add(@1,1.0)) #3=(?,8)f32\n";
  EXPECT_EQ(TypesAfter(graph + "pnnx.Output pnnx_output_0 1 0 3\n", MatchActivations), "F.gelu");
  ExpectSameAnswers(graph + "pnnx.Output pnnx_output_0 1 0 3\n",
                    {RandomTensor(DType::kF32, {9, 8}, 1, -6, 6)});
  // What else is read in between must be made anyway.
  const std::string both = graph + "pnnx.Output pnnx_output_0 2 0 3 2\n";
  ExpectSameAnswers(both, {RandomTensor(DType::kF32, {9, 8}, 1, -6, 6)});
}

TEST(MergeCommon, MakesOneOfTwo) {
  const std::string graph = kTwoInputs +
                            "torch.exp a 1 1 0 2\ntorch.exp b 1 1 0 3\ntorch.exp c 1 1 1 4\n"
                            "torch.rand_like r 1 1 0 6\ntorch.rand_like s 1 1 0 7\n"
                            "nn.LeakyReLU d 1 1 2 8 negative_slope=0.1\n"
                            "nn.LeakyReLU e 1 1 3 9 negative_slope=0.1\n"
                            "nn.LeakyReLU f 1 1 3 10 negative_slope=0.2\n"
                            "pnnx.Expression g 6 1 8 9 10 4 6 7 11 "
                            "expr=add(add(add(@0,@1),add(@2,@3)),sub(@4,@5))\n"
                            "pnnx.Output pnnx_output_0 1 0 11\n";
  EXPECT_EQ(TypesAfter(graph, MergeCommon),
            "torch.exp torch.exp torch.rand_like torch.rand_like nn.LeakyReLU nn.LeakyReLU "
            "pnnx.Expression");
}

TEST(MergeCommon, TellsWeightsAndOutputsApart) {
  const std::string graph = kTwoInputs +
                            "nn.Linear a 1 1 0 2 @weight=(4,8)f32\n"
                            "nn.Linear b 1 1 0 3 @weight=(4,8)f32\n"
                            "pnnx.Expression s 2 1 2 3 4 expr=add(@0,@1)\n"
                            "torch.exp x 1 1 4 5\ntorch.exp y 1 1 4 6\n"
                            "pnnx.Output pnnx_output_0 2 0 5 6\n";
  EXPECT_EQ(TypesAfter(graph, MergeCommon),
            "nn.Linear nn.Linear pnnx.Expression torch.exp torch.exp");
  Graph shared = RandomGraph(graph);
  shared.operators[3].attributes = shared.operators[2].attributes;
  MergeCommon(shared, NothingEvaluated());
  EXPECT_EQ(shared.FindOperator("b"), -1);
  EXPECT_TRUE(shared.Check().empty());
}

TEST(MergePermutations, MakesOneOrNone) {
  const std::string input = "pnnx.Input pnnx_input_0 0 1 0 #0=(?,3,4,5)f32\n";
  const auto graph = [&](const std::string& first, const std::string& second) {
    return input + first + "\n" + second +
           "\ntorch.exp e 1 1 2 3\npnnx.Output pnnx_output_0 1 0 3\n";
  };
  const std::string back = graph("Tensor.permute a 1 1 0 1 dims=(0,2,3,1) #1=(?,4,5,3)f32",
                                 "Tensor.permute b 1 1 1 2 dims=(0,3,1,2) #2=(?,3,4,5)f32");
  EXPECT_EQ(TypesAfter(back, MergePermutations), "torch.exp");
  const std::string on = graph("Tensor.permute a 1 1 0 1 dims=(0,2,3,1) #1=(?,4,5,3)f32",
                               "torch.transpose b 1 1 1 2 dim0=-1 dim1=0 #2=(3,4,5,?)f32");
  EXPECT_EQ(TypesAfter(on, MergePermutations), "Tensor.permute torch.exp");
  for (const std::string& text : {back, on}) {
    ExpectSameAnswers(text, {RandomTensor(DType::kF32, {2, 3, 4, 5}, 1)}, kBitForBit);
  }
  // A result of the model stays one of its own.
  const std::string leaves =
      input +
      "torch.transpose a 1 1 0 1 dim0=1 dim1=1 #1=(?,3,4,5)f32\npnnx.Output pnnx_output_0 1 0 1\n";
  EXPECT_EQ(TypesAfter(leaves, MergePermutations), "torch.transpose");
  // Nonsense stays to be refused.
  EXPECT_EQ(TypesAfter(graph("Tensor.permute a 1 1 0 1 dims=(0,2,2,1) #1=(?,4,5,3)f32",
                             "Tensor.permute b 1 1 1 2 dims=(0,3,1) #2=(?,3,4,5)f32"),
                       MergePermutations),
            "Tensor.permute Tensor.permute torch.exp");
}

/// A layer norm as a trace spells it out: mean, squares, their mean, and what is made of these.
std::string SpelledNorm(const std::string& square, const std::string& norm,
                        const std::string& dim = "(-1)") {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(2,5,12)f32\n"
         "torch.mean m 1 1 0 1 dim=" +
         dim +
         " keepdim=True #0=(2,5,12)f32 #1=(2,5,1)f32\n"
         "pnnx.Expression s 2 1 0 1 2 expr=" +
         square +
         " #0=(2,5,12)f32 #1=(2,5,1)f32 "
         "#2=(2,5,12)f32\n"
         "torch.mean v 1 1 2 3 dim=-1 keepdim=True #2=(2,5,12)f32 #3=(2,5,1)f32\n"
         "pnnx.Attribute w 0 1 4 @data=(12)f32 #4=(12)f32\n"
         "pnnx.Attribute b 0 1 5 @data=(12)f32 #5=(12)f32\n"
         "pnnx.Expression n 5 1 0 1 3 4 5 6 expr=" +
         norm +
         " #0=(2,5,12)f32 #1=(2,5,1)f32 "
         "#3=(2,5,1)f32 #4=(12)f32 #5=(12)f32 #6=(2,5,12)f32\n"
         "pnnx.Output pnnx_output_0 1 0 6\n";
}

TEST(MatchLayerNorm, FindsWhatIsSpelledOut) {
  for (const char* square :
       {"pow(sub(@0,@1),2)", "square(sub(@0,@1))", "mul(sub(@0,@1),sub(@0,@1))"}) {
    for (const char* norm : {"mul(@3,mul(rsqrt(add(1e-5,@2)),sub(@0,@1)))",
                             "add(mul(@3,div(sub(@0,@1),sqrt(add(@2,1e-5)))),@4)"}) {
      const std::string graph = SpelledNorm(square, norm);
      SCOPED_TRACE(graph);
      EXPECT_EQ(TypesAfter(graph, MatchLayerNorm), "F.layer_norm pnnx.Expression");
      ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 5, 12}, 1)}, {1e-5, 1e-5});
      ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {3, 1, 12}, 2)}, {1e-5, 1e-5});
    }
  }
}

/// Without a weight the extent may be another one the next time, as that of a sound.
TEST(MatchLayerNorm, LeavesWhatHasNoWeight) {
  std::string graph = SpelledNorm("square(sub(@0,@1))", "div(sub(@0,@1),sqrt(add(@2,1e-5)))");
  graph.replace(graph.find("n 5 1 0 1 3 4 5 6"), 17, "n 3 1 0 1 3 6");
  graph.replace(graph.find(" #4=(12)f32 #5=(12)f32 #6"), 25, " #6");
  EXPECT_EQ(TypesAfter(graph, MatchLayerNorm).find("F.layer_norm"), std::string::npos);
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 3, 7}, 1)}, {1e-5, 1e-5});
}

TEST(MatchLayerNorm, LeavesOtherFormulas) {
  const std::string good = "mul(@3,div(sub(@0,@1),sqrt(add(@2,1e-5))))";
  for (const std::string& graph :
       {SpelledNorm("pow(sub(@0,@1),3)", good), SpelledNorm("square(sub(@1,@0))", good),
        SpelledNorm("square(@0)", good), SpelledNorm("square(sub(@0,@1))", good, "(1)"),
        SpelledNorm("square(sub(@0,@1))", "mul(@3,div(@0,sqrt(add(@2,1e-5))))"),
        SpelledNorm("square(sub(@0,@1))", "mul(@3,div(sub(@0,@1),sqrt(@2)))"),
        SpelledNorm("square(sub(@0,@1))", "mul(@3,div(sub(@0,@1),add(@2,1e-5)))")}) {
    EXPECT_EQ(TypesAfter(graph, MatchLayerNorm).find("F.layer_norm"), std::string::npos) << graph;
  }
}

}  // namespace
}  // namespace oort
