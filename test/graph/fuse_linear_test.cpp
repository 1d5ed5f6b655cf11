// SPDX-License-Identifier: MIT
#include "graph/pass_check.h"

namespace oort {
namespace {

using testing::RandomTensor;

const std::string kLinearInput = "pnnx.Input pnnx_input_0 0 1 0 #0=(?,20)f32\n";
const std::string kLinear =
    "nn.Linear linear 1 1 0 1 bias=True in_features=20 out_features=30 @bias=(30)f32 "
    "@weight=(30,20)f32 #0=(?,20)f32 #1=(?,30)f32\n";
const std::string kLinearOutput = "pnnx.Output pnnx_output_0 1 0 2\n";

TEST(FuseLinear, TakesActivationsWithoutChangingABit) {
  for (const char* activation :
       {"nn.ReLU a 1 1 1 2", "F.relu a 1 1 1 2", "nn.ReLU6 a 1 1 1 2",
        "nn.Hardtanh a 1 1 1 2 min_val=-0.5 max_val=0.7", "nn.GELU a 1 1 1 2",
        "F.gelu a 1 1 1 2 approximate=tanh", "F.gelu a 1 1 1 2 approximate=none",
        "F.silu a 1 1 1 2", "nn.Hardswish a 1 1 1 2", "nn.Hardsigmoid a 1 1 1 2",
        "F.sigmoid a 1 1 1 2", "F.tanh a 1 1 1 2",
        "nn.LeakyReLU a 1 1 1 2 negative_slope=1.000000e-01", "nn.ELU a 1 1 1 2 alpha=0.3",
        "nn.Mish a 1 1 1 2", "torch.clamp a 1 1 1 2 max=0.25 min=-0.125",
        "torch.clamp a 1 1 1 2 max=None min=-0.125",
        "pnnx.Expression a 1 1 1 2 expr=sigmoid(@0)"}) {
    SCOPED_TRACE(activation);
    const std::string graph = kLinearInput + kLinear + activation + "\n" + kLinearOutput;
    EXPECT_EQ(TypesAfter(graph, FuseLinear), "oort.Linear");
    for (int64_t rows : {1, 2, 9, 50}) {
      Tensor x = RandomTensor(DType::kF32, {rows, 20}, 7, -4, 4);
      ExpectSameAnswers(graph, {x}, kBitForBit);
      x.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
      ExpectSameAnswers(graph, {x}, kBitForBit);
    }
    // Other ranks and dtypes than the trace had.
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 3, 20}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {20}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {RandomTensor(DType::kF16, {4, 20}, 8)}, kBitForBit);
  }
}

TEST(FuseLinear, LeavesWhatIsNoActivation) {
  for (const char* other :
       {"nn.Softmax a 1 1 1 2 dim=-1", "nn.Hardtanh a 1 1 1 2 min_val=2 max_val=1",
        "F.gelu a 1 1 1 2 approximate=some", "pnnx.Expression a 1 1 1 2 expr=exp(@0)",
        "nn.LeakyReLU a 1 1 1 2 negative_slope=inf"}) {
    SCOPED_TRACE(other);
    EXPECT_EQ(
        TypesAfter(kLinearInput + kLinear + other + "\n" + kLinearOutput, FuseLinear).substr(0, 9),
        "nn.Linear");
  }
  // Of another dtype, or with parameters that contradict the weights.
  const std::string relu = "nn.ReLU a 1 1 1 2\n" + kLinearOutput;
  EXPECT_EQ(
      TypesAfter(kLinearInput + "nn.Linear l 1 1 0 1 @weight=(30,20)f64\n" + relu, FuseLinear),
      "nn.Linear nn.ReLU");
  EXPECT_EQ(
      TypesAfter(kLinearInput + "nn.Linear l 1 1 0 1 in_features=7 @weight=(30,20)f32\n" + relu,
                 FuseLinear),
      "nn.Linear nn.ReLU");
  // Read by another, too, and an output of the model.
  EXPECT_EQ(TypesAfter(kLinearInput + kLinear + "nn.ReLU a 1 1 1 2\nnn.ReLU b 1 1 1 3\n" +
                           "pnnx.Output pnnx_output_0 2 0 2 3\n",
                       FuseLinear),
            "nn.Linear nn.ReLU nn.ReLU");
  EXPECT_EQ(TypesAfter(kLinearInput + kLinear + "nn.ReLU a 1 1 1 2\n" +
                           "pnnx.Output pnnx_output_0 2 0 1 2\n",
                       FuseLinear),
            "nn.Linear nn.ReLU");
}

const std::string kSquare =
    "pnnx.Input pnnx_input_0 0 1 0 #0=(?,20)f32\n"
    "pnnx.Input pnnx_input_1 0 1 1 #1=(?,20)f32\n"
    "nn.Linear l 1 1 0 2 bias=False in_features=20 out_features=20 @weight=(20,20)f32 "
    "#2=(?,20)f32\n";

TEST(FuseLinear, AddsTheResidualWithoutChangingABit) {
  for (const char* sum : {"add(@0,@1)", "add(@1,@0)"}) {
    const bool swapped = std::string(sum) == "add(@1,@0)";
    const std::string graph = kSquare + "pnnx.Expression s 2 1 " + (swapped ? "1 2" : "2 1") +
                              " 3 expr=add(@0,@1) #3=(?,20)f32\n" +
                              "nn.ReLU a 1 1 3 4\npnnx.Output pnnx_output_0 1 0 4\n";
    EXPECT_EQ(TypesAfter(graph, FuseLinear), "oort.Linear");
    const Tensor x = RandomTensor(DType::kF32, {9, 20}, 7);
    ExpectSameAnswers(graph, {x, RandomTensor(DType::kF32, {9, 20}, 8)}, kBitForBit);
    // What only broadcasts, on either side, has another rank or another dtype.
    ExpectSameAnswers(graph, {x, RandomTensor(DType::kF32, {1, 20}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {x, RandomTensor(DType::kF32, {1}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {x, RandomTensor(DType::kF32, {3, 9, 20}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {x, RandomTensor(DType::kF64, {9, 20}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {x.Rows(0, 1), RandomTensor(DType::kF32, {9, 20}, 8)}, kBitForBit);
    ExpectSameAnswers(graph, {RandomTensor(DType::kF16, {9, 20}, 3), x}, kBitForBit);
    ExpectSameAnswers(graph,
                      {RandomTensor(DType::kF32, {20}, 3), RandomTensor(DType::kF32, {20}, 4)},
                      kBitForBit);
    ExpectSameAnswers(graph,
                      {RandomTensor(DType::kF32, {0, 20}, 3), RandomTensor(DType::kF32, {20})},
                      kBitForBit);
  }
}

TEST(FuseLinear, AddsOneLinearToAnother) {
  const std::string graph =
      kSquare +
      "nn.Linear m 1 1 1 3 bias=True in_features=20 out_features=20 @bias=(20)f32 "
      "@weight=(20,20)f32 #3=(?,20)f32\n"
      "pnnx.Expression s 2 1 2 3 4 expr=add(@0,@1) #4=(?,20)f32\n"
      "pnnx.Output pnnx_output_0 1 0 4\n";
  EXPECT_EQ(TypesAfter(graph, FuseLinear), "nn.Linear oort.Linear");
  ExpectSameAnswers(graph,
                    {RandomTensor(DType::kF32, {5, 20}, 1), RandomTensor(DType::kF32, {5, 20}, 2)},
                    kBitForBit);
}

TEST(FuseLinear, LeavesOtherSums) {
  const std::string output = "pnnx.Output pnnx_output_0 1 0 3\n";
  for (const char* sum : {
           "pnnx.Expression s 2 1 2 1 3 expr=sub(@0,@1)",
           "pnnx.Expression s 2 1 2 2 3 expr=add(@0,@1)",
           "pnnx.Expression s 1 1 2 3 expr=add(@0,1)",
       }) {
    EXPECT_EQ(TypesAfter(kSquare + sum + " #3=(?,20)f32\n" + output, FuseLinear),
              "nn.Linear pnnx.Expression")
        << sum;
  }
  // An addend that broadcasts as traced.
  EXPECT_EQ(TypesAfter("pnnx.Input pnnx_input_0 0 1 0 #0=(3,20)f32\n"
                       "pnnx.Input pnnx_input_1 0 1 1 #1=(20)f32\n"
                       "nn.Linear l 1 1 0 2 @weight=(20,20)f32 #2=(3,20)f32\n"
                       "pnnx.Expression s 2 1 2 1 3 expr=add(@0,@1) #3=(3,20)f32\n" +
                           output,
                       FuseLinear),
            "nn.Linear pnnx.Expression");
}

}  // namespace
}  // namespace oort
