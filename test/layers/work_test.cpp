// SPDX-License-Identifier: MIT
// What layers say of their work: `oort info` and the profiler believe it.
#include <gtest/gtest.h>

#include "oort/pnnx.h"
#include "oort/runtime_graph.h"

namespace oort {
namespace {

/// FLOPs of one operator line on an input (1,4,8,8)f32.
double FlopsOf(const std::string& type, const std::string& params) {
  const std::string text =
      "7767517\n3 2\n"
      "pnnx.Input pnnx_input_0 0 1 x\n" +
      type + " op 1 1 x y " + params + "\npnnx.Output pnnx_output_0 1 0 y\n";
  const auto graph = RuntimeGraph::Build(ReadPnnx(*ByteSource::Owned(text), nullptr));
  const PlanReport report = graph->Plan({Tensor::Meta(DType::kF32, {1, 4, 8, 8})});
  return report.nodes.at(0).work.flops;
}

TEST(Work, CountsWindowsOfPooling) {
  EXPECT_EQ(FlopsOf("F.max_pool2d",
                    "kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) ceil_mode=False "
                    "return_indices=False"),
            4 * 16 * 4);
  EXPECT_EQ(FlopsOf("F.avg_pool2d",
                    "kernel_size=(3,3) stride=(1,1) padding=(1,1) ceil_mode=False "
                    "count_include_pad=True divisor_override=None"),
            256 * 9);
  EXPECT_EQ(FlopsOf("F.adaptive_avg_pool2d", "output_size=(1,1)"), 256);
}

TEST(Work, CountsElementsOfReductionsAndSoftmax) {
  EXPECT_EQ(FlopsOf("torch.sum", "dim=(1) keepdim=False"), 256);
  EXPECT_EQ(FlopsOf("F.softmax", "dim=1"), 5 * 256);
  EXPECT_GT(FlopsOf("F.group_norm", "num_groups=2 weight=None bias=None eps=1e-5"), 0);
}

TEST(Work, CountsTapsOfResizing) {
  EXPECT_EQ(FlopsOf("F.interpolate", "mode=nearest size=(16,16)"), 0);
  EXPECT_EQ(FlopsOf("F.interpolate", "mode=bilinear size=(16,16) align_corners=False"),
            4 * 256 * 2 * 4);
}

}  // namespace
}  // namespace oort
