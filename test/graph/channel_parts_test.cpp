// SPDX-License-Identifier: MIT
// Images that are joined and cut by their channels without copies, and factors of channels that go
// into filters: the graph before, the graph after, and that the answers stay the same.
#include <algorithm>

#include "graph/pass_check.h"

namespace oort {
namespace {

using testing::RandomTensor;

constexpr testing::Tolerance kSummedInAnotherOrder{1e-4, 1e-5};

/// All passes up to those of this file, and these.
void AllParts(Graph& graph, const PassContext& context) {
  for (const auto pass : {MatchActivations, Nhwc, FuseConvEpilogue, FoldSqueezeExcite,
                          InterleaveChannels, SplitWithoutCopies, CatWithoutCopies}) {
    pass(graph, context);
  }
}

std::string Conv(const std::string& name, const std::string& edge, const std::string& weight,
                 const std::string& more = "padding=(0,0)") {
  const std::string out = weight.substr(1, weight.find(',') - 1);
  return "nn.Conv2d " + name + " 1 1 " + edge + " " + more + " @weight=" + weight + "f32 @bias=(" +
         out + ")f32";
}

/// Two convolutions of one image that are joined, and a third that reads both, as in SqueezeNet.
std::string Fire() {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(1,16,9,8)f32\n" + Conv("small", "0 1", "(24,16,1,1)") +
         " #0=(1,16,9,8)f32 #1=(1,24,9,8)f32\n" +
         "nn.ReLU relu1 1 1 1 2 #1=(1,24,9,8)f32 #2=(1,24,9,8)f32\n" +
         Conv("large", "0 3", "(21,16,3,3)", "padding=(1,1)") +
         " #0=(1,16,9,8)f32 #3=(1,21,9,8)f32\n" +
         "nn.ReLU relu2 1 1 3 4 #3=(1,21,9,8)f32 #4=(1,21,9,8)f32\n" +
         "torch.cat cat 2 1 4 2 5 dim=1 #4=(1,21,9,8)f32 #2=(1,24,9,8)f32 #5=(1,45,9,8)f32\n" +
         Conv("last", "5 6", "(5,45,1,1)") + " #5=(1,45,9,8)f32 #6=(1,5,9,8)f32\n" +
         "pnnx.Output pnnx_output_0 1 0 6\n";
}

TEST(CatWithoutCopies, LetsConvolutionsWriteTheirParts) {
  EXPECT_EQ(TypesAfter(Fire(), AllParts),
            "nhwc.enter nhwc.Conv2d nhwc.Conv2d nhwc.Conv2d "
            "nhwc.leave");
  ExpectSameAnswers(Fire(), {RandomTensor(DType::kF32, {1, 16, 9, 8}, 1)}, kSummedInAnotherOrder);
  ExpectSameAnswers(Fire(), {RandomTensor(DType::kF32, {3, 16, 14, 15}, 2)}, kSummedInAnotherOrder);
}

TEST(CatWithoutCopies, FillsOneImageInPlace) {
  const auto graph = RuntimeGraph::Build(RandomGraph(Fire()));
  const auto plan = graph->Plan({RandomTensor(DType::kF32, {1, 16, 9, 8}, 1)}, 1);
  const auto in_place = std::count_if(plan.nodes.begin(), plan.nodes.end(), [](const auto& node) {
    return node.sharing.find("in place of") == 0;
  });
  EXPECT_EQ(in_place, 1);
}

/// At another rank torch joins another axis: better an error than another answer.
TEST(CatWithoutCopies, KeepsToTheTracedRank) {
  const auto graph = RuntimeGraph::Build(RandomGraph(Fire()));
  EXPECT_THROW(Session(graph).Forward({RandomTensor(DType::kF32, {16, 9, 8}, 1)}), Error);
}

/// What others read as well, or what no convolution makes, is copied to its place.
std::string Skip() {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(1,8,6,7)f32\n" +
         Conv("conv1", "0 1", "(12,8,3,3)", "padding=(1,1)") +
         " #0=(1,8,6,7)f32 #1=(1,12,6,7)f32\n" + Conv("conv2", "1 2", "(20,12,1,1)") +
         " #1=(1,12,6,7)f32 #2=(1,20,6,7)f32\n" +
         "torch.cat cat 2 1 1 2 3 dim=-3 #1=(1,12,6,7)f32 #2=(1,20,6,7)f32 #3=(1,32,6,7)f32\n" +
         Conv("conv3", "3 4", "(4,32,1,1)") + " #3=(1,32,6,7)f32 #4=(1,4,6,7)f32\n" +
         "pnnx.Output pnnx_output_0 2 0 4 3\n";
}

TEST(CatWithoutCopies, CopiesWhatOthersRead) {
  const std::string types = TypesAfter(Skip(), AllParts);
  EXPECT_EQ(types.find("nhwc.cat"), std::string::npos);
  EXPECT_NE(types.find("nhwc.put"), std::string::npos);
  ExpectSameAnswers(Skip(), {RandomTensor(DType::kF32, {1, 8, 6, 7}, 1)}, kSummedInAnotherOrder);
  ExpectSameAnswers(Skip(), {RandomTensor(DType::kF32, {2, 8, 3, 5}, 2)}, kSummedInAnotherOrder);
}

TEST(CatWithoutCopies, LeavesOtherAxesAndWhatHasAnAddend) {
  std::string rows = Skip();
  rows.replace(rows.find("dim=-3"), 6, "dim=2");
  EXPECT_NE(TypesAfter(rows, AllParts).find("nhwc.cat"), std::string::npos);
  const std::string residual =
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,8,6,7)f32\n" + Conv("conv1", "0 1", "(8,8,1,1)") +
      " #0=(1,8,6,7)f32 #1=(1,8,6,7)f32\n" +
      "pnnx.Expression sum 2 1 1 0 2 expr=add(@0,@1) #1=(1,8,6,7)f32 #0=(1,8,6,7)f32 "
      "#2=(1,8,6,7)f32\n"
      "torch.cat cat 2 1 2 0 3 dim=1 #2=(1,8,6,7)f32 #0=(1,8,6,7)f32 #3=(1,16,6,7)f32\n"
      "pnnx.Output pnnx_output_0 1 0 3\n";
  EXPECT_NE(TypesAfter(residual, AllParts).find("nhwc.cat"), std::string::npos);
  ExpectSameAnswers(residual, {RandomTensor(DType::kF32, {1, 8, 6, 7}, 1)}, kSummedInAnotherOrder);
}

/// A unit of ShuffleNet: one half goes through convolutions, the other stays, and both are
/// shuffled.
std::string Shuffle(const std::string& output = "6") {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(1,5,6,7)f32\n" + Conv("conv1", "0 1", "(18,5,1,1)") +
         " #0=(1,5,6,7)f32 #1=(1,18,6,7)f32\n" +
         "torch.chunk chunk 1 2 1 2 3 chunks=2 dim=1 #1=(1,18,6,7)f32 #2=(1,9,6,7)f32 "
         "#3=(1,9,6,7)f32\n" +
         Conv("depth", "3 4", "(9,1,3,3)", "groups=9 padding=(1,1)") +
         " #3=(1,9,6,7)f32 #4=(1,9,6,7)f32\n" +
         "torch.cat cat 2 1 2 4 5 dim=1 #2=(1,9,6,7)f32 #4=(1,9,6,7)f32 #5=(1,18,6,7)f32\n"
         "nn.ChannelShuffle shuffle 1 1 5 6 groups=2 #5=(1,18,6,7)f32 #6=(1,18,6,7)f32\n" +
         Conv("conv2", "6 7", "(3,18,1,1)") + " #6=(1,18,6,7)f32 #7=(1,3,6,7)f32\n" +
         "pnnx.Output pnnx_output_0 2 0 7 " + output + "\n";
}

TEST(SplitWithoutCopies, LetsOthersReadParts) {
  EXPECT_EQ(TypesAfter(Shuffle(), AllParts),
            "nhwc.enter nhwc.Conv2d nhwc.Conv2d "
            "nhwc.interleave nhwc.Conv2d nhwc.leave "
            "nhwc.leave");
  ExpectSameAnswers(Shuffle(), {RandomTensor(DType::kF32, {1, 5, 6, 7}, 1)}, kSummedInAnotherOrder);
  ExpectSameAnswers(Shuffle(), {RandomTensor(DType::kF32, {2, 5, 3, 4}, 2)}, kSummedInAnotherOrder);
}

TEST(SplitWithoutCopies, LeavesPiecesThatOthersRead) {
  const std::string types = TypesAfter(Shuffle("3"), AllParts);
  EXPECT_NE(types.find("nhwc.chunk"), std::string::npos);
  EXPECT_NE(types.find("nhwc.interleave"), std::string::npos);
  ExpectSameAnswers(Shuffle("3"), {RandomTensor(DType::kF32, {1, 5, 6, 7}, 1)},
                    kSummedInAnotherOrder);
}

/// The last channels of the last pixel end with the memory: every kind of kernel reads a part.
TEST(SplitWithoutCopies, ReadsPartsByEveryKernel) {
  for (const auto& [shape, pad] : {std::pair<std::string, std::string>{"(7,9,1,1)", "0"},
                                   {"(20,9,3,3)", "1"},
                                   {"(16,9,5,5)", "2"}}) {
    const std::string lines =
        "pnnx.Input pnnx_input_0 0 1 0 #0=(1,4,8,8)f32\n" + Conv("conv1", "0 1", "(18,4,1,1)") +
        " #0=(1,4,8,8)f32 #1=(1,18,8,8)f32\n" +
        "torch.split cut 1 2 1 2 3 split_size_or_sections=(9,9) dim=1 #1=(1,18,8,8)f32 "
        "#2=(1,9,8,8)f32 #3=(1,9,8,8)f32\n" +
        Conv("a", "2 4", shape, "padding=" + pad) + " #2=(1,9,8,8)f32 #4=(1,9,8,8)f32\n" +
        Conv("b", "3 5", shape, "padding=" + pad + " stride=2") +
        " #3=(1,9,8,8)f32 #5=(1,9,4,4)f32\n" + "pnnx.Output pnnx_output_0 2 0 4 5\n";
    SCOPED_TRACE(lines);
    EXPECT_EQ(TypesAfter(lines, AllParts).find("nhwc.split"), std::string::npos);
    ExpectSameAnswers(lines, {RandomTensor(DType::kF32, {2, 4, 8, 8}, 3)}, {2e-4, 1e-4});
  }
}

/// Squeeze-and-excite before a 1x1 convolution with an addend.
std::string Excite(const std::string& out, const std::string& pool) {
  return "pnnx.Input pnnx_input_0 0 1 0 #0=(1,12,6,7)f32\n" + Conv("conv1", "0 1", "(12,12,1,1)") +
         " #0=(1,12,6,7)f32 #1=(1,12,6,7)f32\n" + pool + " #1=(1,12,6,7)f32 #2=(1,12,1,1)f32\n" +
         Conv("squeeze", "2 3", "(4,12,1,1)") + " #2=(1,12,1,1)f32 #3=(1,4,1,1)f32\n" +
         "nn.SiLU silu 1 1 3 4 #3=(1,4,1,1)f32 #4=(1,4,1,1)f32\n" +
         Conv("excite", "4 5", "(12,4,1,1)") + " #4=(1,4,1,1)f32 #5=(1,12,1,1)f32\n" +
         "nn.Sigmoid sigmoid 1 1 5 6 #5=(1,12,1,1)f32 #6=(1,12,1,1)f32\n"
         "pnnx.Expression product 2 1 6 1 7 expr=mul(@0,@1) #6=(1,12,1,1)f32 #1=(1,12,6,7)f32 "
         "#7=(1,12,6,7)f32\n" +
         Conv("conv2", "7 8", "(" + out + ",12,1,1)") + " #7=(1,12,6,7)f32 #8=(1," + out +
         ",6,7)f32\n" + "pnnx.Output pnnx_output_0 1 0 8\n";
}

const char* const kPool = "nn.AdaptiveAvgPool2d pool 1 1 1 2 output_size=(1,1)";
const char* const kMean = "torch.mean pool 1 1 1 2 dim=(2,3) keepdim=True";

TEST(FoldSqueezeExcite, GivesFactorsToTheConvolution) {
  for (const char* pool : {kPool, kMean}) {
    for (const char* out : {"20", "3", "96"}) {  // fewer filters than pixels, and more
      const std::string lines = Excite(out, pool);
      SCOPED_TRACE(lines);
      EXPECT_EQ(TypesAfter(lines, AllParts).find("pnnx.Expression"), std::string::npos);
      ExpectSameAnswers(lines, {RandomTensor(DType::kF32, {1, 12, 6, 7}, 1)},
                        kSummedInAnotherOrder);
      ExpectSameAnswers(lines, {RandomTensor(DType::kF32, {3, 12, 9, 5}, 2)},
                        kSummedInAnotherOrder);
    }
  }
}

TEST(FoldSqueezeExcite, LeavesFactorsOfAnotherImageAndLargerKernels) {
  std::string two = Excite("20", "nn.AdaptiveAvgPool2d pool 1 1 1 2 output_size=(2,1)");
  EXPECT_NE(TypesAfter(two, AllParts).find("pnnx.Expression"), std::string::npos);
  std::string other = Excite("20", kPool);
  other.replace(other.find("6 1 7 expr"), 10, "6 0 7 expr");
  other.replace(other.find("#6=(1,12,1,1)f32 #1="), 20, "#6=(1,12,1,1)f32 #0=");
  EXPECT_NE(TypesAfter(other, AllParts).find("pnnx.Expression"), std::string::npos);
  std::string large = Excite("20", kPool);
  large.replace(large.find("(20,12,1,1)"), 11, "(20,12,3,3)");
  EXPECT_NE(TypesAfter(large, AllParts).find("pnnx.Expression"), std::string::npos);
}

void AllPartsOnGpu(Graph& graph, const PassContext& context) {
  PassContext on_gpu = context;
  on_gpu.on_gpu = true;
  AllParts(graph, on_gpu);
}

TEST(FoldSqueezeExcite, IsOneOperatorOnAGpu) {
  for (const char* pool : {kPool, kMean}) {
    const std::string lines = Excite("20", pool);
    SCOPED_TRACE(lines);
    EXPECT_EQ(TypesAfter(lines, AllPartsOnGpu),
              "nhwc.enter nhwc.Conv2d nhwc.SqueezeExcite nhwc.Conv2d nhwc.leave");
    Graph graph = RandomGraph(lines);
    AllPartsOnGpu(graph, NothingEvaluated());
    LoadOptions plain;
    plain.check_traced_shapes = false;
    plain.disabled_passes = {"all"};
    for (const Shape& shape : {Shape{1, 12, 6, 7}, Shape{3, 12, 9, 5}}) {
      const Tensor x = RandomTensor(DType::kF32, shape, 1);
      const auto want = Session(RuntimeGraph::Build(RandomGraph(lines), plain)).Forward({x});
      const auto got = Session(RuntimeGraph::Build(graph, plain)).Forward({x});
      testing::ExpectNear(got[0], want[0], kSummedInAnotherOrder);
    }
  }
  // Means of which there are several, factors of another image, and what is read by others, too.
  EXPECT_EQ(
      TypesAfter(Excite("20", "nn.AdaptiveAvgPool2d pool 1 1 1 2 output_size=(2,1)"), AllPartsOnGpu)
          .find("nhwc.SqueezeExcite"),
      std::string::npos);
  std::string other = Excite("20", kPool);
  other.replace(other.find("6 1 7 expr"), 10, "6 0 7 expr");
  other.replace(other.find("#6=(1,12,1,1)f32 #1="), 20, "#6=(1,12,1,1)f32 #0=");
  EXPECT_EQ(TypesAfter(other, AllPartsOnGpu).find("nhwc.SqueezeExcite"), std::string::npos);
  std::string shared = Excite("20", kPool);
  shared.replace(shared.find("pnnx_output_0 1 0 8"), 19, "pnnx_output_0 2 0 8 6");
  EXPECT_EQ(TypesAfter(shared, AllPartsOnGpu).find("nhwc.SqueezeExcite"), std::string::npos);
}

/// GPUs have no parts, and floats of 16 bits are converted as wholes.
TEST(ChannelParts, AreForF32OnTheCpu) {
  PassContext context = NothingEvaluated();
  context.on_gpu = true;
  PassContext narrow = NothingEvaluated();
  narrow.narrow = DType::kF16;
  for (const PassContext& other : {context, narrow}) {
    Graph graph = RandomGraph(Fire());
    AllParts(graph, other);
    EXPECT_NE(Types(graph).find("nhwc.cat"), std::string::npos);
  }
}

}  // namespace
}  // namespace oort
