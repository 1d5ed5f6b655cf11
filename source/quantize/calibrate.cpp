// SPDX-License-Identifier: MIT
#include "quantize/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace oort::quantize {
namespace {

/// Passes that leave every operand that a point may be where it is.
constexpr std::array<std::string_view, 12> kFoldingPasses = {
    "flatten-tuples",    "read-storage",     "dead-code",          "fold-constants",
    "decompose",         "merge-common",     "merge-permutations", "fuse-conv-batchnorm",
    "match-activations", "match-layer-norm", "match-linear",       "fold-scale"};

bool AllFinite(const Tensor& tensor) {
  if (!IsFloat(tensor.dtype())) return true;
  const Tensor wide = tensor.To(DType::kF32);
  const std::span<const float> values = wide.span<float>();
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace

void Watcher::Step(std::string_view phase, size_t done, size_t total) const {
  if (progress) progress({phase, done, total});
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "quantizing was cancelled");
}

std::shared_ptr<const RuntimeGraph> BuildObservable(Graph graph) {
  LoadOptions options;
  options.keep_weights = true;
  for (const std::string& pass : RuntimeGraph::PassNames()) {
    const bool folds =
        std::find(kFoldingPasses.begin(), kFoldingPasses.end(), pass) != kFoldingPasses.end();
    if (!folds) options.disabled_passes.push_back(pass);
  }
  return RuntimeGraph::Build(std::move(graph), options);
}

void Watch(Session& session, const Points& points, const Samples& samples,
           const std::vector<size_t>& numbers, std::string_view phase, const Watcher& watcher,
           const See& see) {
  const Graph& graph = session.graph().graph();
  const auto look = [&](int operand, const Value& value) {
    if (points.class_of[static_cast<size_t>(operand)] < 0) return;
    const std::string& name = graph.operands[static_cast<size_t>(operand)].name;
    if (!value.IsTensor() || value.AsTensor().dtype() != DType::kF32) {
      throw Error(ErrorCode::kUnsupported, "operand '" + name + "' is " + value.KindName() +
                                               ", and only tensors of f32 can be quantized: keep "
                                               "the layers that read it float by a recipe");
    }
    see(operand, value.AsTensor());
  };
  const std::vector<int> ports = graph.InputOperators();
  for (size_t done = 0; done < numbers.size(); ++done) {
    watcher.Step(phase, done, numbers.size());
    const std::vector<Tensor> inputs = samples.read(numbers[done]);
    const std::string name = samples.name(numbers[done]);
    for (size_t i = 0; i < std::min(inputs.size(), ports.size()); ++i) {
      if (!AllFinite(inputs[i])) {
        throw Error(ErrorCode::kInvalidArgument, name + ": it holds NaN or infinity");
      }
      look(graph.operators[static_cast<size_t>(ports[i])].outputs[0], inputs[i]);
    }
    RunOptions run;
    run.stop = watcher.stop;
    run.observer = [&](const NodeEvent& event) {
      const size_t count = std::min(event.op.outputs.size(), event.outputs.size());
      for (size_t i = 0; i < count; ++i) look(event.op.outputs[i], event.outputs[i]);
    };
    try {
      session.Forward(inputs, run);
    } catch (const Error& error) {
      throw error.WithContext(name + ": ");
    }
  }
  watcher.Step(phase, numbers.size(), numbers.size());
}

std::vector<Observer> Observe(Session& session, const Points& points, const Samples& samples,
                              const std::vector<size_t>& numbers, const Watcher& watcher) {
  const Graph& graph = session.graph().graph();
  std::vector<Observer> observers(points.classes.size());
  Watch(session, points, samples, numbers, "calibrate", watcher,
        [&](int operand, const Tensor& tensor) {
          const auto index = static_cast<size_t>(operand);
          if (!points.source[index]) return;
          Observer& observer = observers[static_cast<size_t>(points.class_of[index])];
          if (observer.Add(tensor.span<float>(), session.threads())) return;
          const int producer = graph.operands[index].producer;
          throw Error(
              ErrorCode::kInvalidArgument,
              graph.operators[static_cast<size_t>(producer)].Describe() + " gives NaN or infinity");
        });
  return observers;
}

}  // namespace oort::quantize
