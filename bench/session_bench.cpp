// SPDX-License-Identifier: MIT
// What a Forward costs beside its kernels: nanoseconds an operator, and a parallel region.
#include "bench/measure.h"
#include "core/parallel.h"
#include "oort/oort.h"

namespace oort::bench {
namespace {

constexpr int kOperators = 1000;

/// A chain of `relu` and of `add(@0, @1)` with what came before it, on a few elements.
std::shared_ptr<const RuntimeGraph> Chain(bool additions) {
  Graph graph;
  const auto add = [&](std::string type, std::string name, std::vector<int> inputs) {
    Operator op;
    op.type = std::move(type);
    op.name = name;
    op.inputs = std::move(inputs);
    op.input_names.resize(op.inputs.size());
    if (op.type == "pnnx.Expression") op.params.emplace("expr", Parameter("add(@0,@1)"));
    if (op.type != "pnnx.Output") op.outputs = {graph.AddOperand(name)};
    const int output = op.outputs.empty() ? -1 : op.outputs[0];
    graph.AddOperator(std::move(op));
    return output;
  };
  const int input = add("pnnx.Input", "pnnx_input_0", {});
  int last = input;
  for (int i = 0; i < kOperators; ++i) {
    const std::string name = "op" + std::to_string(i);
    last = additions ? add("pnnx.Expression", name, {last, input}) : add("F.relu", name, {last});
  }
  add("pnnx.Output", "pnnx_output_0", {last});
  LoadOptions options;
  options.disabled_passes = {"all"};
  return RuntimeGraph::Build(std::move(graph), options);
}

void Operators(benchmark::State& state, bool additions) {
  Session session(Chain(additions), {.threads = 1});
  const std::vector<Tensor> inputs = {Filled({16})};
  std::vector<Tensor> outputs = session.Forward(inputs);
  for (auto _ : state) session.ForwardInto(inputs, outputs);
  // As a rate turned over: the time of one.
  state.counters["operator"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kOperators,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// Two pieces of nothing: what waking the threads and waiting for them costs.
void Region(benchmark::State& state) {
  const int threads = AvailableThreads();
  const ThreadLease lease(threads);
  for (auto _ : state) ParallelPieces(threads, threads, kManyGrains, [](int) {});
}

/// The same while the threads stay awake.
void AwakeRegion(benchmark::State& state) {
  const int threads = AvailableThreads();
  const ThreadLease lease(threads);
  int64_t loops = 1000;
  RunAwake(threads, loops, [&] {
    for (auto _ : state) ParallelPieces(threads, threads, kManyGrains, [](int) {});
  });
}

BENCHMARK_CAPTURE(Operators, relu, false);
BENCHMARK_CAPTURE(Operators, add, true);
BENCHMARK(Region)->UseRealTime();
BENCHMARK(AwakeRegion)->UseRealTime();

}  // namespace
}  // namespace oort::bench

BENCHMARK_MAIN();
