// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "oort/runtime_graph.h"
#include "runtime/device_backend.h"
#include "runtime/runtime_impl.h"

namespace oort {

const LayerRegistry& RegistryOf(const LoadOptions& options);
/// Which operands do not depend on any input of the model.
std::vector<bool> ConstantOperands(const Graph& graph, const LayerRegistry& registry);

/// Turns a Graph into a RuntimeImpl; used once.
class GraphBuilder {
 public:
  GraphBuilder(Graph graph, const LoadOptions& options);
  std::unique_ptr<RuntimeImpl> Run();

 private:
  /// One operator on constant inputs: a graph whose slots are its inputs and then its outputs.
  struct LoneNode {
    LoneNode(Node made, const Operator& op, std::span<const Value> inputs);
    const Node& node() const { return impl.nodes.front(); }
    Args args() const { return table[0]; }
    RuntimeImpl impl;
    std::vector<Value> slots;
    ArgTable table;
  };

  void CheckStop() const;
  std::shared_ptr<const OperatorSchema> SchemaOf(const std::string& type);
  /// The layer with its arguments; slots are filled in by the caller. It is one of the host if
  /// `device` has none for the operator.
  Node MakeNode(const Operator& op, std::span<const Value> constant_inputs, Device device);
  std::optional<std::vector<Value>> Evaluate(const Operator& op, std::span<const Value> inputs);
  /// What an operator says of its outputs; nothing if it refuses the inputs.
  std::optional<std::vector<Value>> InferAlone(const Operator& op, std::span<const Value> inputs);
  void RunPasses();
  void SetPrecision();
  void SetConvAlgorithm();
  void AssignSlots();
  void MakeNodes();
  /// The order in which nodes are made, which run in another: who shares a weight comes behind the
  /// first who has it, so that all have packed it, and its file's pages are gone, before the rest.
  std::vector<int> MakingOrder() const;
  void AddNode(int index, const Operator& op);
  /// Numbers and lists of numbers that are known now become constants and need no node.
  bool KeepNumbers(const Operator& op, std::span<const Value> inputs);
  /// Lets go of the weights that the node's layer has packed.
  void ReleaseWeights(int index, Node& node);
  /// The same for constants that are operands, once all who read them are there.
  void ReleaseConstants(const std::set<int>& uploaded);
  void SettleLayers();
  /// Keeps the most weights that were there at one time.
  void CountLoading();
  void CountWeights();
  void MakePorts();
  void CheckTracedShapes();
  Value& Constant(int operand);

  const LoadOptions& options_;
  std::unique_ptr<RuntimeImpl> impl_;
  std::map<std::string, std::shared_ptr<const OperatorSchema>> schemas_;
  std::unique_ptr<DeviceBackend> backend_;  // null for the host
  int64_t layer_bytes_ = 0;                 // that layers allocated and keep
  int64_t attribute_bytes_ = 0;             // that operators still have
  std::vector<int> order_;
  std::vector<int> slot_of_;  // by operand
};

}  // namespace oort
