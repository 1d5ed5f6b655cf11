// SPDX-License-Identifier: MIT
#include "quantize/speed.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace oort::quantize {
namespace {

using Clock = std::chrono::steady_clock;

/// Turns, and how long they may take in all before no more begin.
constexpr int kTurns = 12;
constexpr double kMostSeconds = 4;
/// Floats that took so many times as long as the fastest in their first turns have no more.
constexpr int kFirstTurns = 3;
constexpr double kMuchSlower = 1.5;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void KeepLeast(double& least, double seconds) {
  if (least == 0 || seconds < least) least = seconds;
}

/// One network in one precision.
struct Runner {
  Runner(const Graph& graph, Precision precision, int threads)
      : name(oort::Name(precision)),
        session(RuntimeGraph::Build(graph, OptionsOf(precision)), {.threads = threads}) {}

  static LoadOptions OptionsOf(Precision precision) {
    LoadOptions options;
    options.precision = precision;
    return options;
  }

  void Turn(const std::vector<Tensor>& inputs, std::stop_token stop) {
    RunOptions run;
    run.stop = stop;
    const auto start = Clock::now();
    session.Forward(inputs, run);
    KeepLeast(least, SecondsSince(start));
  }

  /// The same, each operator by itself.
  void TurnByOperator(const std::vector<Tensor>& inputs, std::stop_token stop) {
    RunOptions run;
    run.stop = stop;
    run.observer = [&](const NodeEvent& event) {
      KeepLeast(operators[event.op.FileName()], event.seconds);
    };
    session.Forward(inputs, run);
  }

  std::string name;
  Session session;
  double least = 0;
  std::map<std::string, double> operators;
};

/// What floats the processor has: one that it has not is no candidate.
void AddFloats(const Graph& graph, int threads, std::vector<Runner>& runners) {
  for (const Precision precision : {Precision::kF32, Precision::kBF16, Precision::kF16}) {
    try {
      runners.emplace_back(graph, precision, threads);
    } catch (const Error& error) {
      if (precision == Precision::kF32 || error.code() == ErrorCode::kCancelled) throw;
    }
  }
}

Runner& FastestOf(std::vector<Runner>& runners) {
  return *std::min_element(runners.begin(), runners.end(),
                           [](const Runner& a, const Runner& b) { return a.least < b.least; });
}

}  // namespace

std::vector<std::string> Speed::Slower() const {
  std::vector<LayerSpeed> slow;
  for (const LayerSpeed& layer : layers) {
    // A tenth is what two runs of the same may differ by.
    if (layer.float_seconds > 0 && layer.seconds > 1.1 * layer.float_seconds) slow.push_back(layer);
  }
  std::stable_sort(slow.begin(), slow.end(), [](const LayerSpeed& a, const LayerSpeed& b) {
    return a.seconds - a.float_seconds > b.seconds - b.float_seconds;
  });
  std::vector<std::string> names;
  for (const LayerSpeed& layer : slow) names.push_back(layer.name);
  return names;
}

std::vector<Tensor> TracedInputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const Operator& op : graph.operators) {
    if (op.type != "pnnx.Input") continue;
    for (const int output : op.outputs) {
      const Operand& operand = graph.operands[static_cast<size_t>(output)];
      if (!operand.has_shape || operand.dtype == DType::kNull) return {};
      for (int axis = 0; axis < operand.shape.rank(); ++axis) {
        if (operand.shape[axis] < 1) return {};
      }
      inputs.push_back(Tensor::Zeros(operand.dtype, operand.shape));
    }
  }
  return inputs;
}

Speed MeasureSpeed(const Graph& exact, const Graph& rough, const std::vector<Tensor>& inputs,
                   const std::vector<std::string>& names, int threads, const Watcher& watcher) {
  std::vector<Runner> floats;
  AddFloats(exact, threads, floats);
  Runner bytes(rough, Precision::kF32, threads);
  const auto start = Clock::now();
  for (int turn = 0; turn < kTurns && (turn < 2 || SecondsSince(start) < kMostSeconds); ++turn) {
    watcher.Step("measure", static_cast<size_t>(turn), kTurns);
    for (Runner& runner : floats) runner.Turn(inputs, watcher.stop);
    bytes.Turn(inputs, watcher.stop);
    if (turn + 1 != kFirstTurns) continue;
    const double most = kMuchSlower * FastestOf(floats).least;
    std::erase_if(floats, [most](const Runner& runner) { return runner.least > most; });
  }
  Runner& fastest = FastestOf(floats);
  for (int turn = 0; turn < 3; ++turn) {
    fastest.TurnByOperator(inputs, watcher.stop);
    bytes.TurnByOperator(inputs, watcher.stop);
  }
  Speed speed;
  speed.threads = threads;
  speed.float_seconds = fastest.least;
  speed.float_name = fastest.name;
  speed.seconds = bytes.least;
  for (const std::string& name : names) {
    speed.layers.push_back({name, fastest.operators[name], bytes.operators[name]});
  }
  return speed;
}

}  // namespace oort::quantize
