// SPDX-License-Identifier: MIT
// A network of convolutions on the GPU, held against the CPU's answers.
#include <map>

#include "device_case.h"
#include "graph/graph_builder.h"
#include "oort/session.h"
#include "oort/testing.h"

namespace oort {
namespace {

/// What residual and mobile networks are made of: an entry of 3 channels, a shortcut, a depthwise
/// convolution, groups, poolings, a classifier.
Graph ConvNetwork() {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,33,31)f32\n"
      "nn.Conv2d entry 1 1 0 1 stride=(2,2) padding=(3,3) #0=(1,3,33,31)f32 #1=(1,24,17,16)f32\n"
      "nn.ReLU relu1 1 1 1 2 #1=(1,24,17,16)f32 #2=(1,24,17,16)f32\n"
      "nn.MaxPool2d pool1 1 1 2 3 ceil_mode=False dilation=(1,1) kernel_size=(3,3) padding=(1,1) "
      "return_indices=False stride=(2,2) #2=(1,24,17,16)f32 #3=(1,24,9,8)f32\n"
      "nn.Conv2d middle 1 1 3 4 padding=(1,1) #3=(1,24,9,8)f32 #4=(1,24,9,8)f32\n"
      "pnnx.Expression sum 2 1 4 3 5 expr=add(@0,@1) #4=(1,24,9,8)f32 #3=(1,24,9,8)f32 "
      "#5=(1,24,9,8)f32\n"
      "nn.Hardswish swish 1 1 5 6 #5=(1,24,9,8)f32 #6=(1,24,9,8)f32\n"
      "nn.Conv2d depthwise 1 1 6 7 groups=24 padding=(1,1) #6=(1,24,9,8)f32 #7=(1,24,9,8)f32\n"
      "nn.SiLU silu 1 1 7 8 #7=(1,24,9,8)f32 #8=(1,24,9,8)f32\n"
      "nn.Conv2d grouped 1 1 8 9 groups=3 #8=(1,24,9,8)f32 #9=(1,30,9,8)f32\n"
      "nn.AvgPool2d pool2 1 1 9 10 ceil_mode=False count_include_pad=True divisor_override=None "
      "kernel_size=(2,2) padding=(0,0) stride=(2,2) #9=(1,30,9,8)f32 #10=(1,30,4,4)f32\n"
      "nn.AdaptiveAvgPool2d pool3 1 1 10 11 output_size=(1,1) #10=(1,30,4,4)f32 "
      "#11=(1,30,1,1)f32\n"
      "torch.flatten flat 1 1 11 12 start_dim=1 end_dim=-1 $input=11 #11=(1,30,1,1)f32 "
      "#12=(1,30)f32\n"
      "nn.Linear fc 1 1 12 13 #12=(1,30)f32 #13=(1,10)f32\n"
      "pnnx.Output pnnx_output_0 1 0 13 #13=(1,10)f32\n");
  const std::map<std::string, Shape> weights = {{"entry", {24, 3, 7, 7}},
                                                {"middle", {24, 24, 3, 3}},
                                                {"depthwise", {24, 1, 3, 3}},
                                                {"grouped", {30, 8, 1, 1}},
                                                {"fc", {10, 30}}};
  unsigned seed = 1;
  for (const auto& [name, shape] : weights) {
    Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator(name))];
    const float scale = 1 / std::sqrt(static_cast<float>(shape.Product(1, shape.rank())));
    op.attributes["weight"] = cuda::RandomValues(DType::kF32, shape, seed++, scale);
    op.attributes["bias"] = cuda::RandomValues(DType::kF32, {shape[0]}, seed++, 0.1f);
  }
  return graph;
}

void ExpectLikeTheCpu(Precision precision, double tolerance, std::string_view algorithm = "") {
  const auto cpu = RuntimeGraph::Build(ConvNetwork());
  LoadOptions options;
  options.device = Device::Cuda(0);
  options.precision = precision;
  options.conv_algorithm = algorithm;
  const auto gpu = RuntimeGraph::Build(ConvNetwork(), options);
  for (const Operator& op : gpu->graph().operators) {
    if (precision != Precision::kF16 && precision != Precision::kBF16) break;
    EXPECT_NE(op.type, "nhwc.enter");  // packed and rounded at once
  }
  Session exact(cpu), session(gpu);
  for (int64_t batch : {1, 5}) {
    const Tensor input = cuda::RandomValues(DType::kF32, {batch, 3, 33, 31}, 77);
    const std::vector<Tensor> expected = exact.Forward({input});
    for (int run = 0; run < 4; ++run) {  // the third replays what was recorded
      const std::vector<Tensor> got = session.Forward({input});
      ASSERT_EQ(got[0].dtype(), DType::kF32);
      const std::vector<double> wanted(expected[0].data<float>(),
                                       expected[0].data<float>() + expected[0].elements());
      cuda::ExpectNear(got[0], wanted, tolerance);
    }
  }
}

TEST(CudaConvNetwork, F32IsTheCpus) {
  OORT_SKIP_WITHOUT_GPU();
  ExpectLikeTheCpu(Precision::kF32, 1e-5);
}

/// Also of the convolution whose filters are otherwise packed for the depthwise algorithm alone.
TEST(CudaConvNetwork, ForcedAlgorithmsAnswerAlike) {
  OORT_SKIP_WITHOUT_GPU();
  for (const char* algorithm : {"direct", "implicit-gemm", "implicit-gemm-tma", "narrow"}) {
    SCOPED_TRACE(algorithm);
    ExpectLikeTheCpu(Precision::kF32, 1e-5, algorithm);
    ExpectLikeTheCpu(Precision::kF16, 5e-3, algorithm);
  }
  LoadOptions options;
  options.device = Device::Cuda(0);
  options.conv_algorithm = "direct";
  const auto graph = RuntimeGraph::Build(ConvNetwork(), options);
  int direct = 0;
  for (const NodeReport& node : graph->Plan({Tensor::Meta(DType::kF32, {1, 3, 33, 31})}).nodes) {
    direct += node.work.algorithm == "direct" ? 1 : 0;
  }
  EXPECT_EQ(direct, 4);
}

TEST(CudaConvNetwork, LessCostsWhatItRounds) {
  OORT_SKIP_WITHOUT_GPU();
  ExpectLikeTheCpu(Precision::kTF32, 2e-3);
  ExpectLikeTheCpu(Precision::kF16, 5e-3);
  ExpectLikeTheCpu(Precision::kBF16, 4e-2);
}

/// A region of images that are resized in the middle.
Graph ResizedBetweenConvolutions(const std::string& parameters) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(2,3,9,7)f32\n"
      "nn.Conv2d first 1 1 0 1 #0=(2,3,9,7)f32 #1=(2,12,9,7)f32\n"
      "nn.Upsample resize 1 1 1 2 size=(13,20) " +
      parameters +
      " #1=(2,12,9,7)f32 #2=(2,12,13,20)f32\n"
      "nn.Conv2d second 1 1 2 3 #2=(2,12,13,20)f32 #3=(2,5,13,20)f32\n"
      "pnnx.Output pnnx_output_0 1 0 3 #3=(2,5,13,20)f32\n");
  for (const auto& [name, shape] :
       std::map<std::string, Shape>{{"first", {12, 3, 1, 1}}, {"second", {5, 12, 1, 1}}}) {
    Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator(name))];
    op.attributes["weight"] = cuda::RandomValues(DType::kF32, shape, 3, 0.3f);
    op.attributes["bias"] = cuda::RandomValues(DType::kF32, {shape[0]}, 4);
  }
  return graph;
}

TEST(CudaConvNetwork, ResizesAsTheCpuDoes) {
  OORT_SKIP_WITHOUT_GPU();
  const Tensor input = cuda::RandomValues(DType::kF32, {2, 3, 9, 7}, 5);
  for (const char* parameters :
       {"mode=nearest", "mode=nearest-exact", "mode=bilinear align_corners=False",
        "mode=bilinear align_corners=True", "mode=bicubic align_corners=False",
        "mode=bicubic align_corners=True"}) {
    SCOPED_TRACE(parameters);
    Session cpu(RuntimeGraph::Build(ResizedBetweenConvolutions(parameters)));
    LoadOptions options;
    options.device = Device::Cuda(0);
    const auto graph = RuntimeGraph::Build(ResizedBetweenConvolutions(parameters), options);
    int resized = 0;
    for (const Operator& op : graph->graph().operators) {
      resized += op.type == "nhwc.Upsample" ? 1 : 0;
    }
    EXPECT_EQ(resized, 1);
    Session gpu(graph);
    const Tensor expected = cpu.Forward({input})[0];
    const std::vector<double> wanted(expected.data<float>(),
                                     expected.data<float>() + expected.elements());
    cuda::ExpectNear(gpu.Forward({input})[0], wanted, 1e-5);
  }
}

}  // namespace
}  // namespace oort
