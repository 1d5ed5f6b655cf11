// SPDX-License-Identifier: MIT
// Runs a float network over samples and looks at the operands that are to become bytes.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "oort/session.h"
#include "quantize/observer.h"
#include "quantize/points.h"

namespace oort::quantize {

/// Inputs for a network, one sample at a time: they are read when they are needed.
struct Samples {
  size_t count = 0;
  std::function<std::vector<Tensor>(size_t index)> read;
  std::function<std::string(size_t index)> name;  ///< for messages: the file it comes from
};

/// What may end a long run, and who is told how far it is.
struct Watcher {
  std::stop_token stop;
  ProgressFunction progress;

  /// Throws kCancelled when it is to end.
  void Step(std::string_view phase, size_t done, size_t total) const;
};

/// The network as it is quantized: batch norms, constants and paddings are folded, every operand
/// that a point may be can be seen, and the graph has its weights.
std::shared_ptr<const RuntimeGraph> BuildObservable(Graph graph);

/// Sees an operand of the observable graph.
using See = std::function<void(int operand, const Tensor& tensor)>;

/// Runs the samples of these numbers in this order. Throws kInvalidArgument where an input of a
/// sample holds NaN or infinity, and kUnsupported where a point is not f32.
void Watch(Session& session, const Points& points, const Samples& samples,
           const std::vector<size_t>& numbers, std::string_view phase, const Watcher& watcher,
           const See& see);

/// One observer for each class of points. Throws kInvalidArgument where an operator gives NaN or
/// infinity.
std::vector<Observer> Observe(Session& session, const Points& points, const Samples& samples,
                              const std::vector<size_t>& numbers, const Watcher& watcher);

}  // namespace oort::quantize
