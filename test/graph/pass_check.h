// SPDX-License-Identifier: MIT
// What tests of passes have in common: graphs with random weights, before and after.
#pragma once

#include <gtest/gtest.h>

#include "graph/graph_builder.h"
#include "graph/passes/passes.h"
#include "oort/testing.h"

namespace oort {

/// Runs no operator while a pass runs.
inline PassContext NothingEvaluated() {
  return {[](const Operator&, std::span<const Value>) -> std::optional<std::vector<Value>> {
    return {};
  }};
}

/// GraphFromText with random attributes; variances are positive.
inline Graph RandomGraph(const std::string& lines) {
  Graph graph = GraphFromText(lines);
  uint64_t seed = 100;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      const bool variance = name == "running_var";
      tensor = testing::RandomTensor(tensor.dtype(), tensor.shape(), seed++, variance ? 0.2 : -1,
                                     variance ? 2 : 1);
    }
  }
  return graph;
}

/// The types of the operators that are no ports once `run` has been over the graph.
inline std::string TypesAfter(const std::string& lines,
                              void (*run)(Graph& graph, const PassContext& context)) {
  Graph graph = RandomGraph(lines);
  run(graph, NothingEvaluated());
  EXPECT_EQ(EdgeProblems(graph), "");
  RemoveDeadCode(graph, NothingEvaluated());
  EXPECT_TRUE(graph.Check().empty());
  std::string types;
  for (int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    if (!op.IsPort()) types += (types.empty() ? "" : " ") + op.type;
  }
  return types;
}

/// The graph gives with all passes what it gives without any, on every instruction set.
inline void ExpectSameAnswers(const std::string& lines, const std::vector<Tensor>& inputs,
                              testing::Tolerance tolerance = {}) {
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    LoadOptions plain, fused;
    plain.isa = fused.isa = isa;
    plain.check_traced_shapes = fused.check_traced_shapes = false;
    plain.disabled_passes = {"all"};
    const auto expected = Session(RuntimeGraph::Build(RandomGraph(lines), plain)).Forward(inputs);
    const auto got = Session(RuntimeGraph::Build(RandomGraph(lines), fused)).Forward(inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) testing::ExpectNear(got[i], expected[i], tolerance);
  }
}

constexpr testing::Tolerance kBitForBit{0, 0};

}  // namespace oort
