// SPDX-License-Identifier: MIT
#include "runtime/footprint.h"

#include <algorithm>

namespace oort {
namespace {

// A layer, the buffers' owners that it has, its kernels and tables.
constexpr size_t kLayerBytes = 1024;

/// What an allocator takes for a block: a header, and a multiple of 16 bytes.
constexpr size_t BlockBytes(size_t bytes) {
  return bytes == 0 ? 0 : std::max<size_t>(32, (bytes + 8 + 15) / 16 * 16);
}

// HeapOf: what an object owns beyond its own bytes.
size_t HeapOf(const std::string& text) {
  constexpr size_t kInside = 15;
  return text.capacity() <= kInside ? 0 : BlockBytes(text.capacity() + 1);
}
size_t HeapOf(int) { return 0; }
size_t HeapOf(const Placement&) { return 0; }
size_t HeapOf(const ArenaBlock&) { return 0; }
size_t HeapOf(const Tensor&) { return 0; }  // elements are weights or activations
size_t HeapOf(const Parameter& parameter) { return HeapOf(parameter.text()); }
size_t HeapOf(const Value& value);
size_t HeapOf(const BoundArg& arg);
size_t HeapOf(const Step& step);
size_t HeapOf(const Operator& op);
size_t HeapOf(const Operand& operand);
size_t HeapOf(const Node& node);
size_t HeapOf(const Port& port);

template <typename T>
size_t HeapOf(const std::vector<T>& list) {
  size_t bytes = BlockBytes(list.capacity() * sizeof(T));
  for (const T& item : list) bytes += HeapOf(item);
  return bytes;
}

template <typename T>
size_t HeapOf(const std::map<std::string, T>& map) {
  constexpr size_t kLinks = 4 * sizeof(void*);
  size_t bytes = 0;
  for (const auto& [key, value] : map) {
    bytes += BlockBytes(kLinks + sizeof(std::pair<const std::string, T>));
    bytes += HeapOf(key) + HeapOf(value);
  }
  return bytes;
}

size_t HeapOf(const Value& value) {
  if (value.IsString()) return HeapOf(value.AsString());
  return value.IsList() ? HeapOf(value.AsList()) : 0;
}
size_t HeapOf(const BoundArg& arg) { return HeapOf(arg.value); }
size_t HeapOf(const Step& step) { return HeapOf(step.release) + HeapOf(step.sharing); }
size_t HeapOf(const Operand& operand) { return HeapOf(operand.name) + HeapOf(operand.consumers); }
size_t HeapOf(const Port& port) { return HeapOf(port.name) + HeapOf(port.operand); }

size_t HeapOf(const Operator& op) {
  return HeapOf(op.type) + HeapOf(op.name) + HeapOf(op.whole_type) + HeapOf(op.whole_name) +
         HeapOf(op.inputs) + HeapOf(op.outputs) + HeapOf(op.input_names) + HeapOf(op.params) +
         HeapOf(op.attributes);
}

size_t HeapOf(const Node& node) {
  return HeapOf(node.bound.args) + HeapOf(node.bound.variadic) + HeapOf(node.inputs) +
         HeapOf(node.fallback) + kLayerBytes;
}

}  // namespace

size_t StructureBytes(const RuntimeImpl& graph) {
  return HeapOf(graph.graph.operators) + HeapOf(graph.graph.operands) + HeapOf(graph.nodes) +
         HeapOf(graph.constants) + HeapOf(graph.inputs) + HeapOf(graph.outputs) +
         HeapOf(graph.slot_names);
}

size_t StructureBytes(const RuntimeImpl& graph, const ExecutionPlan& plan) {
  size_t bytes = HeapOf(plan.specs) + HeapOf(plan.placements) + HeapOf(plan.steps) +
                 HeapOf(plan.blocks) + HeapOf(plan.inputs);
  // The session's own values, and pointers to the arguments of each node.
  bytes += BlockBytes(graph.constants.size() * sizeof(Value));
  for (const Node& node : graph.nodes) {
    bytes += BlockBytes(node.bound.args.size() * sizeof(void*)) +
             BlockBytes(node.inputs.size() * sizeof(void*)) + 9 * sizeof(void*);
  }
  return bytes;
}

}  // namespace oort
