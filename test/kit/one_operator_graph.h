// SPDX-License-Identifier: MIT
// A graph around one operator: its named inputs, the operator, and one output.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "oort/oort.h"

namespace oort::testing {

inline Graph GraphOf(Operator op, std::initializer_list<const char*> inputs) {
  Graph graph;
  op.name = "tested";
  for (const char* name : inputs) {
    Operator input;
    input.type = "pnnx.Input";
    input.name = "pnnx_input_" + std::to_string(op.inputs.size());
    input.outputs = {graph.AddOperand(name)};
    op.inputs.push_back(input.outputs[0]);
    op.input_names.emplace_back(name);
    graph.AddOperator(std::move(input));
  }
  op.outputs = {graph.AddOperand("out")};
  Operator sink;
  sink.type = "pnnx.Output";
  sink.name = "pnnx_output_0";
  sink.inputs = op.outputs;
  graph.AddOperator(std::move(op));
  graph.AddOperator(std::move(sink));
  return graph;
}

}  // namespace oort::testing
