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
  bool twice = false;  ///< a second one follows, whose first input is what the first one gives
  int unread = 0;      ///< outputs behind the first, which nobody looks at
};

inline std::shared_ptr<const RuntimeGraph> GraphOf(const RankCase& rank, Device device = {}) {
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
  for (int i = 0; i < rank.unread; ++i) {
    op.outputs.push_back(graph.AddOperand("unread" + std::to_string(i)));
  }
  if (rank.twice) {
    Operator first = op;
    op.inputs[0] = first.outputs[0];
    op.name = "second exchange";
    op.outputs = {graph.AddOperand("second out")};
    graph.AddOperator(std::move(first));
  }
  Operator output;
  output.type = "pnnx.Output";
  output.name = "pnnx_output_0";
  output.inputs = {op.outputs[0]};
  output.input_names.resize(1);
  graph.AddOperator(std::move(op));
  graph.AddOperator(std::move(output));
  LoadOptions options;
  options.device = device;
  return RuntimeGraph::Build(std::move(graph), options);
}

/// The result of each rank, or what it threw.
struct RankResult {
  Tensor output;
  std::string error;
};

/// Where ranks run: `connect` is called on each rank before it does, and what is on a device runs
/// often enough to be recorded.
struct RanksRun {
  double deadline = 20;
  Device device = {};
  std::function<void(Collective&)> connect = {};
};

inline std::vector<RankResult> RunOnRanks(const std::vector<RankCase>& cases,
                                          const RanksRun& run = {}) {
  const int ranks = static_cast<int>(cases.size());
  auto group = MakeLocalGroup(ranks, run.deadline);
  std::vector<RankResult> results(cases.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < cases.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        if (run.connect) run.connect(*group[rank]);
        const GroupScope scope(*group[rank]);
        Session session(GraphOf(cases[rank], run.device), {.threads = 1});
        const int times = run.device.type == DeviceType::kCpu ? 1 : 4;
        for (int i = 0; i < times; ++i) {
          results[rank].output = session.Forward(cases[rank].inputs)[0];
        }
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
