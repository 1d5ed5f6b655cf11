// SPDX-License-Identifier: MIT
// What a RuntimeGraph is made of.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/guard.h"
#include "oort/runtime_graph.h"
#include "runtime/plan.h"

namespace oort {

/// One layer with its place in the graph. Values live in slots; the outputs of a node have
/// consecutive slots, so that a layer sees them as one span.
struct Node {
  enum Copy : unsigned char { kNoCopy, kToDevice, kToHost };
  int op = 0;  ///< index into Graph::operators
  std::shared_ptr<const OperatorSchema> schema;
  BoundArgs bound;
  std::unique_ptr<Layer> layer;  ///< changed by Settle only
  std::vector<int> inputs;       ///< slots, in the order of Operator::inputs
  int first_output = 0;          ///< slot
  int output_count = 0;
  Device device;         ///< where its outputs are
  Copy copy = kNoCopy;   ///< what brings tensors from one device to another has no Forward
  std::string fallback;  ///< why it runs on the CPU although the graph does not

  bool OnDevice() const { return device.type != DeviceType::kCpu; }
};

struct RuntimeImpl {
  Graph graph;
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kF32;
  Device device;
  /// By slot: copies of constants on the device, for the layers there. In `constants` these slots
  /// hold the host's, which shape inference may look into.
  std::map<int, Tensor> device_constants;
  size_t device_weight_bytes = 0;  ///< that layers hold there, and these
  std::vector<Node> nodes;         ///< producers first
  size_t weight_bytes = 0;         ///< that constants and layers hold on the host
  size_t loading_bytes = 0;        ///< the most of them at one time while it was built
  std::vector<Value> constants;    ///< by slot; deferred where a slot is computed
  std::vector<Port> inputs, outputs;
  std::vector<int> input_slots;
  std::vector<int> output_slots;        ///< tuples flattened
  std::vector<std::string> slot_names;  ///< operand names, for messages and reports

  int slots() const { return static_cast<int>(constants.size()); }
  const Operator& OpOf(const Node& node) const {
    return graph.operators[static_cast<size_t>(node.op)];
  }
  bool IsConstant(int slot) const { return !constants[static_cast<size_t>(slot)].IsDeferred(); }

  /// The plan for inputs like these; made once and kept for the next caller.
  std::shared_ptr<const ExecutionPlan> PlanFor(const std::vector<Value>& inputs, int threads) const;

 private:
  static constexpr size_t kMostPlans = 64;
  struct CachedPlan {
    std::string key;
    std::shared_ptr<const ExecutionPlan> plan;
  };
  mutable std::mutex mutex_;
  mutable std::list<CachedPlan> plans_;  ///< most recently used first
};

/// Pointers to the arguments of each node, into `slots` and the bound parameters: made once.
class ArgTable {
 public:
  ArgTable() = default;
  ArgTable(const RuntimeImpl& graph, const std::vector<Value>& slots);
  Args operator[](size_t node) const { return entries_[node].View(); }

 private:
  struct Entry {
    std::vector<const Value*> args, variadic, inputs;
    Args View() const { return {args, variadic, inputs}; }
  };
  std::vector<Entry> entries_;
};

/// "operator 'x' (type, line n): " before the message of whatever `body` throws.
template <typename Body>
decltype(auto) WithOperator(const Operator& op, Body&& body) {
  try {
    return Guarded(std::forward<Body>(body));
  } catch (const Error& error) {
    throw error.WithContext(op.Describe() + ": ");
  }
}

/// Layer::Infer with the dtypes checked first and errors that name the operator.
std::vector<Value> InferNode(const RuntimeImpl& graph, const Node& node, const Args& args);

class DeviceQueue;

/// With what a layer runs; on the host without a queue.
struct RunPlace {
  int threads = 1;
  const RunState* state = nullptr;
  DeviceQueue* queue = nullptr;
};

/// Allocates the outputs that `specs` (from Infer) describe, views included, and runs the layer
/// if anything is left to do. `shapes` are the arguments as Infer saw them.
void RunEagerly(const Layer& layer, const Args& args, const Args& shapes, std::vector<Value> specs,
                std::span<Value> outputs, const RunPlace& place);

}  // namespace oort
