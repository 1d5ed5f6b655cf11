// SPDX-License-Identifier: MIT
#include <limits>

#include "graph/pass_check.h"

namespace oort {
namespace {

using testing::RandomTensor;

/// Heads by `expr`, the softmax over `dim`; operand 6 are the scores.
std::string Spelled(const std::string& transposition, const std::string& scores,
                    const std::string& softmax = "F.softmax s 1 1 7 8 dim=-1 #8=(?,4,?,?)f32\n") {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(?,4,?,8)f32\n"
         "pnnx.Input pnnx_input_1 0 1 1 #1=(?,4,?,8)f32\n"
         "pnnx.Input pnnx_input_2 0 1 2 #2=(?,4,?,6)f32\n"
         "pnnx.Input pnnx_input_3 0 1 3 #3=(?,1,1,?)f32\n" +
         transposition + " #5=(?,4,8,?)f32\n" +
         "torch.matmul m 2 1 0 5 6 $input=0 $other=5 #6=(?,4,?,?)f32\n" + scores +
         " #7=(?,4,?,?)f32\n" + softmax +
         "torch.matmul w 2 1 8 2 9 $input=8 $other=2 #9=(?,4,?,6)f32\n"
         "pnnx.Output pnnx_output_0 1 0 9\n";
}

const std::string kTransposed = "torch.transpose t 1 1 1 5 dim0=-1 dim1=-2";
const std::string kMasked = "pnnx.Expression e 2 1 6 3 7 expr=add(mul(@0,0.25),@1)";

std::vector<Tensor> SpelledInputs(Shape mask, int64_t batch = 2, int64_t queries = 5,
                                  int64_t keys = 7) {
  return {RandomTensor(DType::kF32, {batch, 4, queries, 8}, 1),
          RandomTensor(DType::kF32, {batch, 4, keys, 8}, 2),
          RandomTensor(DType::kF32, {batch, 4, keys, 6}, 3), RandomTensor(DType::kF32, mask, 4)};
}

TEST(MatchAttention, FindsItInEverySpelling) {
  for (const char* scores :
       {"pnnx.Expression e 2 1 6 3 7 expr=add(mul(@0,0.25),@1)",
        "pnnx.Expression e 2 1 3 6 7 expr=add(@0,div(@1,3.0))",
        "pnnx.Expression e 2 1 6 3 7 expr=add(@0,@1)", "pnnx.Expression e 1 1 6 7 expr=mul(0.5,@0)",
        "pnnx.Expression e 1 1 6 7 expr=div(@0,2)"}) {
    SCOPED_TRACE(scores);
    const std::string graph = Spelled(kTransposed, scores);
    EXPECT_EQ(TypesAfter(graph, MatchAttention), "oort.Attention");
    ExpectSameAnswers(graph, SpelledInputs({2, 1, 1, 7}));
    ExpectSameAnswers(graph, SpelledInputs({4, 1, 9}, 1, 1, 9));
  }
  EXPECT_EQ(TypesAfter(Spelled("Tensor.permute t 1 1 1 5 dims=(0,1,3,2)", kMasked), MatchAttention),
            "oort.Attention");
}

TEST(MatchAttention, AddsMasksOfAnyShapeAsASumDoes) {
  const std::string graph = Spelled(kTransposed, kMasked);
  for (const Shape& mask : {Shape{7}, Shape{}, Shape{5, 7}, Shape{4, 5, 1}, Shape{3, 2, 4, 5, 7}}) {
    SCOPED_TRACE(mask.ToString());
    ExpectSameAnswers(graph, SpelledInputs(mask));
  }
  ExpectSameAnswers(graph, SpelledInputs({3, 4, 5, 7}, 1));  // more batches than the scores have
  std::vector<Tensor> inputs = SpelledInputs({2, 1, 1, 7});
  inputs[3] = RandomTensor(DType::kBool, {2, 1, 1, 7}, 5);  // true adds 1
  ExpectSameAnswers(graph, inputs);
  inputs[3] = Tensor(DType::kF32, {2, 1, 1, 7});  // nothing to see: NaN
  for (int64_t i = 0; i < 14; ++i) {
    inputs[3].data<float>()[i] = i < 7 ? -std::numeric_limits<float>::infinity() : 0.0f;
  }
  ExpectSameAnswers(graph, inputs);
}

TEST(MatchAttention, KeepsWhatPermutedTheKey) {
  const std::string graph =
      "pnnx.Input pnnx_input_0 0 1 0 #0=(?,4,?,8)f32\n"
      "pnnx.Input pnnx_input_1 0 1 1 #1=(?,?,4,8)f32\n"
      "pnnx.Input pnnx_input_2 0 1 2 #2=(?,4,?,6)f32\n"
      "Tensor.permute t 1 1 1 5 dims=(0,2,3,1) #5=(?,4,8,?)f32\n"
      "torch.matmul m 2 1 0 5 6 #6=(?,4,?,?)f32\n"
      "nn.Softmax s 1 1 6 8 dim=3 #8=(?,4,?,?)f32\n"
      "torch.matmul w 2 1 8 2 9 #9=(?,4,?,6)f32\n"
      "pnnx.Output pnnx_output_0 1 0 9\n";
  EXPECT_EQ(TypesAfter(graph, MatchAttention), "Tensor.permute oort.Attention");
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 4, 5, 8}, 1),
                            RandomTensor(DType::kF32, {2, 7, 4, 8}, 2),
                            RandomTensor(DType::kF32, {2, 4, 7, 6}, 3)});
}

TEST(MatchAttention, LeavesWhatIsNone) {
  const auto spelled = [](const std::string& graph) { return TypesAfter(graph, MatchAttention); };
  const std::string plain = "torch.transpose torch.matmul pnnx.Expression ";
  EXPECT_EQ(spelled(Spelled(kTransposed, kMasked, "F.softmax s 1 1 7 8 dim=1 #8=(?,4,?,?)f32\n")),
            plain + "F.softmax torch.matmul");
  EXPECT_EQ(spelled(Spelled(kTransposed, kMasked, "F.softmin s 1 1 7 8 dim=-1\n")),
            plain + "F.softmin torch.matmul");
  EXPECT_EQ(spelled(Spelled(kTransposed, "pnnx.Expression e 2 1 6 3 7 expr=mul(@0,@1)")),
            plain + "F.softmax torch.matmul");
  EXPECT_EQ(spelled(Spelled("nn.ReLU t 1 1 1 5", kMasked)),
            "nn.ReLU torch.matmul pnnx.Expression F.softmax torch.matmul");
  // The scores or the weights leave the model.
  for (const char* operand : {"6", "7", "8"}) {
    std::string graph = Spelled(kTransposed, kMasked);
    graph.replace(graph.find("1 0 9\n"), 6, std::string("2 0 9 ") + operand + "\n");
    EXPECT_EQ(spelled(graph), plain + "F.softmax torch.matmul") << operand;
  }
}

/// (batch,length,4*8) to heads and back.
const std::string kHeads =
    "pnnx.Input pnnx_input_0 0 1 0 #0=(?,?,4,8)f32\n"
    "pnnx.Input pnnx_input_1 0 1 1 #1=(?,?,4,8)f32\n"
    "torch.transpose q 1 1 0 2 dim0=1 dim1=2 #2=(?,4,?,8)f32\n"
    "Tensor.permute k 1 1 1 3 dims=(0,2,1,3) #3=(?,4,?,8)f32\n"
    "torch.transpose v 1 1 1 4 dim0=1 dim1=-2 #4=(?,4,?,8)f32\n"
    "F.scaled_dot_product_attention a 3 1 2 3 4 5 dropout_p=0.0 is_causal=True $query=2 $key=3 "
    "$value=4 #5=(?,4,?,8)f32\n";

TEST(FoldHeads, TakesTranspositionsAway) {
  const std::string graph = kHeads +
                            "torch.transpose o 1 1 5 6 dim0=1 dim1=2 #6=(?,?,4,8)f32\n"
                            "pnnx.Output pnnx_output_0 1 0 6\n";
  EXPECT_EQ(TypesAfter(graph, FoldHeads), "oort.Attention");
  for (int64_t length : {1, 9, 130}) {
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, length, 4, 8}, 1),
                              RandomTensor(DType::kF32, {2, length, 4, 8}, 2)});
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {1, length, 3, 5}, 1),
                              RandomTensor(DType::kF32, {1, length + 2, 3, 5}, 2)});
  }
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 0, 4, 8}, 1),
                            RandomTensor(DType::kF32, {2, 3, 4, 8}, 2)});
  // Of another rank axis 1 would not be that of the heads.
  Session session(RuntimeGraph::Build(RandomGraph(graph)));
  EXPECT_THROW(session.Forward({RandomTensor(DType::kF32, {2, 3, 4, 8, 5}, 1),
                                RandomTensor(DType::kF32, {2, 3, 4, 8, 5}, 2)}),
               Error);
}

TEST(FoldHeads, LeavesOtherTranspositions) {
  EXPECT_EQ(TypesAfter(kHeads + "torch.transpose o 1 1 5 6 dim0=2 dim1=3 #6=(?,4,8,?)f32\n" +
                           "pnnx.Output pnnx_output_0 1 0 6\n",
                       FoldHeads),
            "oort.Attention torch.transpose");
  const std::string both = kHeads +
                           "torch.transpose o 1 1 5 6 dim0=1 dim1=2 #6=(?,?,4,8)f32\n"
                           "pnnx.Output pnnx_output_0 3 0 5 6 2\n";
  EXPECT_EQ(TypesAfter(both, FoldHeads), "torch.transpose oort.Attention torch.transpose");
  ExpectSameAnswers(both, {RandomTensor(DType::kF32, {2, 3, 4, 8}, 1),
                           RandomTensor(DType::kF32, {2, 3, 4, 8}, 2)});
}

}  // namespace
}  // namespace oort
