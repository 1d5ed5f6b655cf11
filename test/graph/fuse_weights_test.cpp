// SPDX-License-Identifier: MIT
// Passes that change the weights or the padding of convolutions and linear operators.
#include "graph/pass_check.h"

namespace oort {
namespace {

using testing::RandomTensor;

const std::string kImage = "pnnx.Input pnnx_input_0 0 1 0 #0=(1,4,7,6)f32\n";
const std::string kPadded =
    "nn.Conv2d c 1 1 1 2 bias=False dilation=(1,1) groups=1 in_channels=4 kernel_size=(3,3) "
    "out_channels=5 padding=(1,0) padding_mode=zeros stride=(2,1) @weight=(5,4,3,3)f32\n"
    "pnnx.Output pnnx_output_0 1 0 2\n";

TEST(FusePadConv, AddsToThePadding) {
  for (const char* pad :
       {"F.pad p 1 1 0 1 mode=constant pad=(2,2,1,1) value=0.0", "F.pad p 1 1 0 1 pad=(3,3)",
        "F.pad p 1 1 0 1 mode=constant pad=(1,1,2,2) value=None",
        "nn.ZeroPad2d p 1 1 0 1 padding=(1,1,2,2)",
        "nn.ConstantPad2d p 1 1 0 1 padding=(1,1,1,1) value=0"}) {
    SCOPED_TRACE(pad);
    const std::string graph = kImage + pad + "\n" + kPadded;
    EXPECT_EQ(TypesAfter(graph, FusePadConv), "nn.Conv2d");
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {1, 4, 7, 6}, 1)});
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 4, 9, 11}, 1)});
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {4, 9, 11}, 1)});
  }
}

TEST(FusePadConv, LeavesOtherPadding) {
  for (const char* pad :
       {"F.pad p 1 1 0 1 mode=constant pad=(2,1,1,1) value=0.0",
        "F.pad p 1 1 0 1 mode=reflect pad=(1,1,1,1)",
        "F.pad p 1 1 0 1 mode=constant pad=(1,1,1,1) value=1.0", "F.pad p 1 1 0 1 pad=(-1,-1)",
        "F.pad p 1 1 0 1 pad=(1,1,1,1,1,1)",
        "nn.ConstantPad2d p 1 1 0 1 padding=(1,1,1,1) value=0.5",
        "nn.ReflectionPad2d p 1 1 0 1 padding=(1,1,1,1)", "nn.ZeroPad1d p 1 1 0 1 padding=(1,1)"}) {
    EXPECT_NE(TypesAfter(kImage + pad + "\n" + kPadded, FusePadConv), "nn.Conv2d") << pad;
  }
  const std::string pad = "F.pad p 1 1 0 1 pad=(1,1)\n";
  for (const char* conv :
       {"padding_mode=reflect padding=(1,0)", "padding=same", "padding=(1,0,1)"}) {
    EXPECT_EQ(TypesAfter(kImage + pad + "nn.Conv2d c 1 1 1 2 kernel_size=(3,3) " + conv +
                             " @weight=(5,4,3,3)f32\npnnx.Output pnnx_output_0 1 0 2\n",
                         FusePadConv),
              "F.pad nn.Conv2d")
        << conv;
  }
  EXPECT_EQ(
      TypesAfter(kImage + pad + "nn.Conv2d c 1 1 1 2 kernel_size=(3,3) @weight=(5,4,3,3)f32\n" +
                     "pnnx.Output pnnx_output_0 2 0 1 2\n",
                 FusePadConv),
      "F.pad nn.Conv2d");
}

const std::string kNorm =
    "eps=1.000000e-3 @running_mean=(6)f32 @running_var=(6)f32 @weight=(6)f32 @bias=(6)f32\n"
    "pnnx.Output pnnx_output_0 1 0 2\n";

TEST(FuseBatchNorm, GoesIntoTransposedConvolutions) {
  for (const char* groups :
       {"1 out_channels=6 @weight=(4,6,3,2)f32", "2 out_channels=6 @weight=(4,3,3,2)f32"}) {
    const std::string graph = kImage +
                              "nn.ConvTranspose2d c 1 1 0 1 bias=True dilation=(1,1) in_channels=4 "
                              "kernel_size=(3,2) output_padding=(0,0) padding=(0,0) stride=(2,1) "
                              "@bias=(6)f32 groups=" +
                              groups + "\nnn.BatchNorm2d n 1 1 1 2 affine=True num_features=6 " +
                              kNorm;
    EXPECT_EQ(TypesAfter(graph, FuseConvBatchNorm), "nn.ConvTranspose2d") << groups;
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 4, 5, 3}, 1)});
  }
}

TEST(FuseBatchNorm, GoesIntoLinear) {
  const std::string head = "pnnx.Input pnnx_input_0 0 1 0 #0=(3,4)f32\n";
  const std::string norm = "nn.BatchNorm1d n 1 1 1 2 affine=True num_features=6 " + kNorm;
  for (const char* bias : {"bias=True @bias=(6)f32", "bias=False"}) {
    const std::string graph = head +
                              "nn.Linear l 1 1 0 1 in_features=4 out_features=6 @weight=(6,4)f32 " +
                              bias + " #1=(3,6)f32\n" + norm;
    EXPECT_EQ(TypesAfter(graph, FuseConvBatchNorm), "oort.Linear");
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {3, 4}, 1)});
    // Of rank 3 the norm would be over another axis.
    Session session(RuntimeGraph::Build(RandomGraph(graph)));
    EXPECT_THROW(session.Forward({RandomTensor(DType::kF32, {3, 6, 4}, 1)}), Error);
  }
  const std::string third =
      "pnnx.Input pnnx_input_0 0 1 0 #0=(3,6,4)f32\n"
      "nn.Linear l 1 1 0 1 bias=False @weight=(6,4)f32 #1=(3,6,6)f32\n" +
      norm;
  EXPECT_EQ(TypesAfter(third, FuseConvBatchNorm), "nn.Linear nn.BatchNorm1d");
}

TEST(MatchLinear, ReadsProductsWithAConstant) {
  const std::string head =
      "pnnx.Input pnnx_input_0 0 1 0 #0=(?,5)f32\n"
      "pnnx.Attribute w 0 1 1 @data=(5,7)f32 #1=(5,7)f32\n"
      "pnnx.Attribute b 0 1 2 @data=(7)f32 #2=(7)f32\n"
      "pnnx.Attribute t 0 1 3 @data=(7,5)f32 #3=(7,5)f32\n";
  const std::string tail = "pnnx.Output pnnx_output_0 1 0 9\n";
  for (const char* product : {"torch.addmm p 3 1 2 0 1 9 alpha=1 beta=1 $input=2 $mat1=0 $mat2=1",
                              "torch.matmul p 2 1 0 1 9", "torch.mm p 2 1 0 1 9 $input=0 $mat2=1",
                              "F.linear p 3 1 0 3 2 9 $input=0 $weight=3 $bias=2",
                              "F.linear p 2 1 0 3 9 $input=0 $weight=3"}) {
    SCOPED_TRACE(product);
    const std::string graph = head + product + "\n" + tail;
    EXPECT_EQ(TypesAfter(graph, MatchLinear), "nn.Linear");
    ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {3, 5}, 1)}, kBitForBit);
  }
  ExpectSameAnswers(head + "torch.matmul p 2 1 0 1 9\n" + tail, {RandomTensor(DType::kF32, {5}, 1)},
                    kBitForBit);
  ExpectSameAnswers(head + "torch.matmul p 2 1 0 1 9\n" + tail,
                    {RandomTensor(DType::kF32, {2, 3, 5}, 1)}, kBitForBit);
  for (const char* product :
       {"torch.addmm p 3 1 2 0 1 9 alpha=2 beta=1", "torch.addmm p 3 1 0 0 1 9 alpha=1 beta=1",
        "torch.matmul p 2 1 1 0 9", "torch.matmul p 2 1 3 1 9",
        "torch.matmul p 2 1 1 0 9 $other=1 $input=0"}) {
    EXPECT_NE(TypesAfter(head + product + "\n" + tail, MatchLinear), "nn.Linear") << product;
  }
}

TEST(MatchLinear, DropsReshapesAroundIt) {
  const auto graph = [](const std::string& shape, const std::string& sizes) {
    return "pnnx.Input pnnx_input_0 0 1 0 #0=(?,?,5)f32\n"
           "pnnx.Attribute w 0 1 1 @data=(5,7)f32 #1=(5,7)f32\n"
           "pnnx.Attribute b 0 1 2 @data=(7)f32 #2=(7)f32\n"
           "Tensor.reshape f 1 1 0 3 shape=" +
           shape +
           " $input=0 #3=(?,5)f32\n"
           "torch.addmm p 3 1 2 3 1 4 alpha=1 beta=1 $input=2 $mat1=3 $mat2=1 #4=(?,7)f32\n"
           "pnnx.Expression s 1 1 0 5 expr=" +
           sizes +
           "\n"
           "Tensor.reshape u 2 1 4 5 6 $input=4 $shape=5 #6=(?,?,7)f32\n"
           "pnnx.Output pnnx_output_0 1 0 6\n";
  };
  const std::string whole = graph("(-1,5)", "[size(@0,0),size(@0,1),7]");
  EXPECT_EQ(TypesAfter(whole, MatchLinear), "nn.Linear");
  ExpectSameAnswers(whole, {RandomTensor(DType::kF32, {2, 3, 5}, 1)}, kBitForBit);
  const std::string turned = graph("(-1,5)", "[size(@0,1),size(@0,0),7]");
  EXPECT_EQ(TypesAfter(turned, MatchLinear),
            "Tensor.reshape nn.Linear pnnx.Expression Tensor.reshape");
  ExpectSameAnswers(turned, {RandomTensor(DType::kF32, {2, 3, 5}, 1)}, kBitForBit);
}

/// A convolution or a linear operator, an expression of its result and a constant of that shape.
std::string Scaled(const std::string& op, const std::string& expr, const std::string& constant) {
  const bool linear = op.starts_with("nn.Linear");
  const std::string out = linear ? "(2,4,7,6)f32" : "(1,6,5,4)f32";
  return kImage + op + " #0=(1,4,7,6)f32 #1=" + out + "\n" +
         "pnnx.Attribute k 0 1 2 @data=" + constant + "f32 #2=" + constant + "f32\n" +
         "pnnx.Expression e 2 1 1 2 3 expr=" + expr + " #1=" + out + " #3=" + out +
         "\npnnx.Output pnnx_output_0 1 0 3\n";
}

const char* const kScaledConv =
    "nn.Conv2d c 1 1 0 1 padding=(0,0) @weight=(6,4,3,3)f32 @bias=(6)f32";
const char* const kScaledLinear = "nn.Linear l 1 1 0 1 @weight=(6,6)f32";

TEST(FoldScale, GoesIntoWeights) {
  const Tensor image = RandomTensor(DType::kF32, {2, 4, 7, 6}, 1);
  for (const char* expr : {"mul(@0,@1)", "mul(@1,@0)", "add(@0,@1)", "sub(@0,@1)", "sub(@1,@0)",
                           "div(@0,@1)", "mul(add(@0,@1),0.5)", "div(mul(0.125,@0),3.0)"}) {
    for (const std::string shape : {"(6,1,1)", "(1,6,1,1)", "(1)"}) {
      const std::string graph = Scaled(kScaledConv, expr, shape);
      SCOPED_TRACE(graph);
      EXPECT_EQ(TypesAfter(graph, FoldScale), "nn.Conv2d");
      ExpectSameAnswers(graph, {image}, {1e-4, 1e-4});
    }
    for (const std::string shape : {"(6)", "(1,1,6)", "(1)"}) {
      const std::string graph = Scaled(kScaledLinear, expr, shape);
      SCOPED_TRACE(graph);
      EXPECT_EQ(TypesAfter(graph, FoldScale), "nn.Linear");
      ExpectSameAnswers(graph, {image}, {1e-4, 1e-4});
    }
  }
}

TEST(FoldScale, LeavesTheRestOfTheFormula) {
  const std::string graph = Scaled(kScaledConv, "sigmoid(mul(@0,@1))", "(6,1,1)");
  EXPECT_EQ(TypesAfter(graph, FoldScale), "nn.Conv2d pnnx.Expression");
  ExpectSameAnswers(graph, {RandomTensor(DType::kF32, {2, 4, 7, 6}, 1)}, {1e-5, 1e-5});
}

TEST(FoldScale, LeavesConstantsOfOtherAxesAndOtherFunctions) {
  for (const auto& [expr, shape] : {std::pair<std::string, std::string>{"mul(@0,@1)", "(4)"},
                                    {"mul(@0,@1)", "(5,1)"},
                                    {"mul(@0,@1)", "(1,1,6,1,1)"},
                                    {"div(@1,@0)", "(6,1,1)"},
                                    {"mul(@0,@0)", "(6,1,1)"},
                                    {"pow(@0,@1)", "(6,1,1)"}}) {
    EXPECT_NE(TypesAfter(Scaled(kScaledConv, expr, shape), FoldScale).find("pnnx.Expression"),
              std::string::npos)
        << expr << shape;
  }
}

}  // namespace
}  // namespace oort
