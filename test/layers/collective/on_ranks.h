// SPDX-License-Identifier: MIT
// Runs one operator on several ranks, which are threads.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/local_collective.h"
#include "oort/session.h"

namespace oort::testing {

/// What a rank has: its operator, and its inputs.
struct RankCase {
  Operator op;
  std::vector<Tensor> inputs;
};

inline std::shared_ptr<const RuntimeGraph> GraphOf(const RankCase& rank) {
  Graph graph;
  Operator op = rank.op;
  for (size_t i = 0; i < rank.inputs.size(); ++i) {
    const int operand = graph.AddOperand("in" + std::to_string(i));
    Operator input;
    input.type = "pnnx.Input";
    input.name = "pnnx_input_" + std::to_string(i);
    input.outputs = {operand};
    graph.AddOperator(input);
    op.inputs.push_back(operand);
  }
  op.input_names.resize(op.inputs.size());
  op.name = "exchange";
  op.outputs = {graph.AddOperand("out")};
  Operator output;
  output.type = "pnnx.Output";
  output.name = "pnnx_output_0";
  output.inputs = op.outputs;
  output.input_names.resize(1);
  graph.AddOperator(std::move(op));
  graph.AddOperator(std::move(output));
  return RuntimeGraph::Build(std::move(graph));
}

/// The result of each rank, or what it threw.
struct RankResult {
  Tensor output;
  std::string error;
};

inline std::vector<RankResult> RunOnRanks(const std::vector<RankCase>& cases,
                                          double deadline = 20) {
  const int ranks = static_cast<int>(cases.size());
  auto group = MakeLocalGroup(ranks, deadline);
  std::vector<RankResult> results(cases.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < cases.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const GroupScope scope(*group[rank]);
        Session session(GraphOf(cases[rank]), {.threads = 1});
        results[rank].output = session.Forward(cases[rank].inputs)[0];
      } catch (const Error& error) {
        results[rank].error = error.what();
        group[rank]->Fail(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

/// The same numbers on all ranks, bit by bit.
template <typename T>
void ExpectOnAllRanks(const std::vector<RankResult>& results, const std::vector<T>& want) {
  for (const RankResult& result : results) {
    ASSERT_EQ(result.error, "");
    const auto got = result.output.span<T>();
    EXPECT_EQ(std::vector<T>(got.begin(), got.end()), want);
  }
}

}  // namespace oort::testing
