// SPDX-License-Identifier: MIT
// Squeeze-and-excite on the GPU against the same on the CPU.
#include <gtest/gtest.h>

#include "cuda/device.h"
#include "graph/graph_builder.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::RandomTensor;

struct ExciteCase {
  Shape image;
  int64_t hidden;
  const char *squeeze, *excite;
  bool bias = true;

  Graph Build(DType dtype) const {
    const int64_t channels = image[image.rank() - 1];
    Graph graph = GraphFromText(
        "pnnx.Input pnnx_input_0 0 1 x\n"
        "nhwc.SqueezeExcite op 1 1 x y squeeze_activation=" +
        std::string(squeeze) + " excite_activation=" + std::string(excite) +
        "\npnnx.Output pnnx_output_0 1 0 y\n");
    for (Operator& op : graph.operators) {
      if (op.name != "op") continue;
      op.attributes["squeeze_weight"] = RandomTensor(DType::kF32, {hidden, channels}, 3);
      op.attributes["excite_weight"] = RandomTensor(DType::kF32, {channels, hidden}, 4);
      if (!bias) continue;
      op.attributes["squeeze_bias"] = RandomTensor(DType::kF32, {hidden}, 5);
      op.attributes["excite_bias"] = RandomTensor(DType::kF32, {channels}, 6);
    }
    Operand& x = graph.operands[static_cast<size_t>(graph.FindOperand("x"))];
    x.dtype = dtype;
    x.has_shape = true;
    x.shape = image;
    return graph;
  }
};

TEST(CudaSqueezeExcite, GivesWhatTheCpuGives) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  const ExciteCase cases[] = {
      {{1, 112, 112, 32}, 8, "silu", "sigmoid"}, {{2, 7, 7, 1152}, 48, "silu", "sigmoid"},
      {{3, 5, 4, 13}, 5, "relu", "hardsigmoid"}, {{70, 3, 3, 24}, 6, "hardswish", "none", false},
      {{1, 1, 1, 8}, 1, "none", "sigmoid"},      {{2, 2, 3, 4100}, 33, "relu", "sigmoid"}};
  for (const ExciteCase& tested : cases) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(tested.image.ToString() + " " + std::string(Name(dtype)));
      const Tensor x = RandomTensor(DType::kF32, tested.image, 1, -2, 3).To(dtype);
      const Tensor want =
          Session(RuntimeGraph::Build(tested.Build(DType::kF32))).Forward({x.To(DType::kF32)})[0];
      LoadOptions options;
      options.device = Device::Cuda(0);
      const auto graph = RuntimeGraph::Build(tested.Build(dtype), options);
      for (const NodeReport& node : graph->Plan({x}).nodes) EXPECT_EQ(node.fallback, "");
      Session session(graph);
      const double tolerance = dtype == DType::kF32 ? 3e-4 : dtype == DType::kF16 ? 2e-3 : 2e-2;
      // Step by step, recorded, and replayed.
      for (int run = 0; run < 3; ++run) {
        const Tensor got = session.Forward({x})[0].To(DType::kF32);
        testing::ExpectNear(got, want, {tolerance, tolerance});
      }
    }
  }
}

}  // namespace
}  // namespace oort
