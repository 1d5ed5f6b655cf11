// SPDX-License-Identifier: MIT
// One operator on the GPU against the same on the CPU, which other tests hold against torch.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "graph/graph_builder.h"
#include "oort/session.h"
#include "oort/testing.h"

namespace oort {

class OperatorsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  }

  /// `op` is the type and the parameters; attributes are filled with random numbers.
  static Graph MakeGraph(const std::string& type, const std::string& params,
                         const std::vector<Tensor>& inputs, int outputs,
                         const std::map<std::string, Tensor>& attributes) {
    std::string lines, names;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string number = std::to_string(i);
      lines += "pnnx.Input pnnx_input_" + number + " 0 1 x" + number + "\n";
      names += " x" + number;
    }
    for (int i = 0; i < outputs; ++i) names += " y" + std::to_string(i);
    lines += type + " op " + std::to_string(inputs.size()) + " " + std::to_string(outputs) + names +
             (params.empty() ? "" : " " + params) + "\n";
    for (int i = 0; i < outputs; ++i) {
      const std::string number = std::to_string(i);
      lines += "pnnx.Output pnnx_output_" + number + " 1 0 y" + number + "\n";
    }
    Graph graph = GraphFromText(lines);
    for (Operator& op : graph.operators) {
      if (op.name == "op") op.attributes = attributes;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      Operand& operand =
          graph.operands[static_cast<size_t>(graph.FindOperand("x" + std::to_string(i)))];
      operand.dtype = inputs[i].dtype();
      operand.has_shape = true;
      operand.shape = inputs[i].shape();
    }
    return graph;
  }

  static void ExpectSame(const std::string& type, const std::string& params,
                         const std::vector<Tensor>& inputs, int outputs = 1,
                         const std::map<std::string, Tensor>& attributes = {},
                         testing::Tolerance tolerance = {}) {
    SCOPED_TRACE(type + " " + params + " " + inputs[0].ToString());
    const Graph graph = MakeGraph(type, params, inputs, outputs, attributes);
    const auto on_host = RuntimeGraph::Build(graph);
    LoadOptions options;
    options.device = Device::Cuda(0);
    const auto on_device = RuntimeGraph::Build(graph, options);
    for (const NodeReport& node : on_device->Plan(inputs).nodes) {
      EXPECT_EQ(node.fallback, "") << node.type;
    }
    Session host(on_host), device(on_device);
    const std::vector<Tensor> want = host.Forward(inputs);
    // Step by step, recorded, and replayed.
    for (int run = 0; run < 3; ++run) {
      const std::vector<Tensor> got = device.Forward(inputs);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) testing::ExpectNear(got[i], want[i], tolerance);
    }
  }
};

}  // namespace oort
