// SPDX-License-Identifier: MIT
#include "bench/measure.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "core/parallel.h"
#include "cpu/roofs.h"
#ifdef OORT_OPENBLAS
#include <cblas.h>
#endif

namespace oort::bench {
namespace {

#ifdef OORT_OPENBLAS
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Median seconds of several runs, after one that does not count.
template <typename Body>
double MedianSeconds(int runs, Body body) {
  body();
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const double start = CpuSeconds();
    body();
    seconds.push_back(CpuSeconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<size_t>(runs / 2)];
}
#endif

/// A rate: its value is multiplied by the iterations and divided by the time.
benchmark::Counter RateOf(double work, double unit) {
  return {work / unit, benchmark::Counter::kIsIterationInvariantRate};
}

const MachineRoofs::Memory& LevelOf(double bytes, int threads) {
  static const MachineRoofs roofs = MeasureRoofs();
  for (const MachineRoofs::Memory& level : roofs.memory) {
    const size_t size = threads > 1 ? level.size_all : level.size_one;
    if (bytes <= static_cast<double>(size)) return level;
  }
  return roofs.memory.back();
}

Operator Port(const char* type, const std::string& name) {
  Operator op;
  op.type = type;
  op.name = name;
  return op;
}

Graph GraphOf(const OperatorCase& op) {
  Graph graph;
  Operator made = Port(op.type.c_str(), "op");
  for (const auto& [name, text] : op.params) made.params[name] = Parameter(text);
  made.attributes = op.attributes;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Operator input = Port("pnnx.Input", "pnnx_input_" + std::to_string(i));
    input.outputs = {graph.AddOperand("x" + std::to_string(i))};
    made.inputs.push_back(input.outputs.front());
    graph.AddOperator(std::move(input));
  }
  Operator output = Port("pnnx.Output", "pnnx_output_0");
  made.outputs = output.inputs = {graph.AddOperand("y")};
  graph.AddOperator(std::move(made));
  graph.AddOperator(std::move(output));
  return graph;
}

}  // namespace

Tensor Filled(Shape shape) {
  Tensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(i % 13) * 0.125f - 0.75f;
  }
  return tensor;
}

double Peak() {
  static const double peak = PeakFlops(DefaultIsa());
  return peak;
}

double OpenBlasFlops([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n,
                     [[maybe_unused]] int64_t k) {
#ifdef OORT_OPENBLAS
  openblas_set_num_threads(1);
  std::vector<float> a(static_cast<size_t>(m * k), 0.5f), b(static_cast<size_t>(k * n), 0.25f),
      c(static_cast<size_t>(m * n));
  const auto size = [](int64_t extent) { return static_cast<int>(extent); };
  const double seconds = MedianSeconds(11, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size(m), size(n), size(k), 1.0f,
                a.data(), size(k), b.data(), size(n), 0.0f, c.data(), size(n));
  });
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
#else
  return 0;
#endif
}

void Report(benchmark::State& state, double flops, int threads, double openblas_flops) {
  state.counters["GFLOP/s"] = RateOf(flops, 1e9);
  state.counters["peak%"] = RateOf(flops, Peak() * threads / 100);
  if (openblas_flops > 0) state.counters["x_openblas"] = RateOf(flops, openblas_flops * threads);
}

void RunOperator(benchmark::State& state, const OperatorCase& op, int threads,
                 double openblas_flops) {
  LoadOptions options;
  options.disabled_passes = {"all"};  // the operator itself, not what it might become
  const auto graph = RuntimeGraph::Build(GraphOf(op), options);
  std::vector<Tensor> inputs;
  for (const Shape& shape : op.inputs) inputs.push_back(Filled(shape).To(op.dtype));
  Session session(graph, {.threads = threads});
  RunOptions run;
  run.outputs = session.Forward(inputs);
  const Cost work = graph->Plan(inputs, threads).nodes.front().work;
  for (auto _ : state) session.Forward(inputs, run);
  if (work.flops > 0) Report(state, work.flops, threads, openblas_flops);
  const double peak = Peak() * threads * (op.dtype == DType::kF16 ? 2 : 1);
  if (work.flops > 0) state.counters["peak%"] = RateOf(work.flops, peak / 100);
  const MachineRoofs::Memory& level = LevelOf(work.bytes, threads);
  const double read = threads > 1 ? level.all : level.one;
  state.counters["GB/s"] = RateOf(work.bytes, 1e9);
  state.counters["read%"] = RateOf(work.bytes, read / 100);
  const bool compute = work.flops / peak > work.bytes / read;
  state.SetLabel(compute ? "compute" : level.name);
}

void ForThreads(const std::string& name,
                const std::function<void(benchmark::State&, int threads)>& body) {
  const int all = AvailableThreads();
  // One thread is timed by its processor time, which a busy machine disturbs less.
  benchmark::RegisterBenchmark((name + "/threads:1").c_str(), body, 1);
  if (all == 1) return;
  const std::string many = name + "/threads:" + std::to_string(all);
  benchmark::RegisterBenchmark(many.c_str(), body, all)->UseRealTime();
}

std::string Pair(int64_t value) {
  return "(" + std::to_string(value) + "," + std::to_string(value) + ")";
}

}  // namespace oort::bench
