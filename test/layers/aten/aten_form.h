// SPDX-License-Identifier: MIT
// Operators that pnnx leaves in ATen's form: constants come as expressions without inputs.
#pragma once

#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

/// `type` with `tensors` inputs, followed by `constants` as pnnx.Expression would give them.
inline Session AtenSession(const std::string& type, size_t tensors,
                           const std::vector<std::string>& constants, int outputs = 1) {
  Graph graph;
  Operator op{.type = type, .name = "tested"};
  Operator sink{.type = "pnnx.Output", .name = "pnnx_output_0"};
  const auto add_input = [&](Operator producer) {
    op.inputs.push_back(graph.AddOperand("in" + std::to_string(op.inputs.size())));
    producer.outputs = {op.inputs.back()};
    graph.AddOperator(std::move(producer));
  };
  for (size_t i = 0; i < tensors; ++i) {
    add_input({.type = "pnnx.Input", .name = "pnnx_input_" + std::to_string(i)});
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    add_input({.type = "pnnx.Expression",
               .name = "constant" + std::to_string(i),
               .params = {{"expr", Parameter(constants[i])}}});
  }
  for (int i = 0; i < outputs; ++i) {
    op.outputs.push_back(graph.AddOperand("out" + std::to_string(i)));
  }
  sink.inputs = op.outputs;
  graph.AddOperator(std::move(op));
  graph.AddOperator(std::move(sink));
  return Session(RuntimeGraph::Build(std::move(graph)));
}

/// Runs it on `tensors`.
inline std::vector<Tensor> RunAten(const std::string& type, const std::vector<Tensor>& tensors,
                                   const std::vector<std::string>& constants, int outputs = 1) {
  return AtenSession(type, tensors.size(), constants, outputs).Forward(tensors);
}

}  // namespace oort::testing
