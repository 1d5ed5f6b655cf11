// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

/// A graph written operator by operator; operands are named by their numbers.
class SmallGraph {
 public:
  explicit SmallGraph(int operands) {
    for (int i = 0; i < operands; ++i) graph_.AddOperand(std::to_string(i));
  }
  SmallGraph& Add(const std::string& type, std::vector<int> inputs, std::vector<int> outputs,
                  const std::map<std::string, std::string>& params = {},
                  std::vector<std::string> names = {}) {
    Operator op;
    op.type = type;
    const bool input = type == "pnnx.Input", output = type == "pnnx.Output";
    op.name = input    ? "pnnx_input_" + std::to_string(inputs_++)
              : output ? "pnnx_output_0"
                       : "op" + std::to_string(graph_.operators.size());
    op.input_names = std::move(names);
    op.input_names.resize(inputs.size());
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
    for (const auto& [key, text] : params) op.params[key] = Parameter(text);
    graph_.AddOperator(std::move(op));
    return *this;
  }
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs, bool passes = true) const {
    LoadOptions options;
    if (!passes) options.disabled_passes = {"all"};
    return Session(RuntimeGraph::Build(graph_, options)).Forward(inputs);
  }

 private:
  Graph graph_;
  int inputs_ = 0;
};

}  // namespace oort::testing
