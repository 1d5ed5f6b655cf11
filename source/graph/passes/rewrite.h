// SPDX-License-Identifier: MIT
// What passes have in common: looking around an operator, and taking one out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/graph.h"

namespace oort {

/// An attribute, or null.
inline const Tensor* FindAttribute(const Operator& op, const std::string& name) {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? nullptr : &found->second;
}

/// An attribute that is absent or f32 with its elements there.
inline bool IsFloatOrAbsent(const Tensor* tensor) {
  return tensor == nullptr || (tensor->dtype() == DType::kF32 && tensor->has_data());
}

/// A parameter; None where it is absent.
inline Value ParameterValue(const Operator& op, const std::string& name) {
  const auto found = op.params.find(name);
  return found == op.params.end() ? Value() : found->second.value();
}

/// 0 where it is absent, or no integer.
inline int64_t IntParameter(const Operator& op, const std::string& name) {
  const Value value = ParameterValue(op, name);
  return value.IsInt() ? value.AsInt() : 0;
}

/// A parameter as it is written; empty where it is absent.
inline std::string ParameterText(const Operator& op, const std::string& name) {
  const auto found = op.params.find(name);
  return found == op.params.end() ? std::string() : found->second.text();
}

/// A graph while it is rewritten: operators that are taken out go when the pass is over.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph), dead_(graph.operators.size(), false) {}
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  Graph& graph() { return graph_; }
  Operator& op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  Operand& operand(int index) { return graph_.operands[static_cast<size_t>(index)]; }
  bool dead(int index) const {
    return static_cast<size_t>(index) < dead_.size() && dead_[static_cast<size_t>(index)];
  }

  /// The index of the operator that makes an operand, -1 if there is none.
  int ProducerOf(int operand_index) { return operand(operand_index).producer; }
  /// That operator if its type is `type`, else null.
  Operator* ProducerOf(int operand_index, std::string_view type) {
    const int producer = ProducerOf(operand_index);
    return producer >= 0 && op(producer).type == type ? &op(producer) : nullptr;
  }
  /// Whether one operator alone reads it, once. Outputs of the model are read by pnnx.Output.
  bool HasOneUse(int operand_index) { return operand(operand_index).consumers.size() == 1; }
  /// The tensor of a pnnx.Attribute, or null.
  const Tensor* ConstantOf(int operand_index) {
    const Operator* constant = ProducerOf(operand_index, "pnnx.Attribute");
    const Tensor* data = constant == nullptr ? nullptr : FindAttribute(*constant, "data");
    return data != nullptr && data->has_data() ? data : nullptr;
  }

  /// What input `at` of an operator is called; empty where its place says that.
  std::string_view InputName(int index, size_t at) {
    const std::vector<std::string>& names = op(index).input_names;
    return at < names.size() ? std::string_view(names[at]) : std::string_view();
  }
  bool NamesInputs(int index) {
    for (const std::string& name : op(index).input_names) {
      if (!name.empty()) return true;
    }
    return false;
  }
  /// See Graph::ReplaceInput.
  void ReplaceInput(int index, size_t at, int operand_index) {
    graph_.ReplaceInput(index, at, operand_index);
  }
  /// See Graph::SetInputs.
  void SetInputs(int index, std::vector<int> inputs) { graph_.SetInputs(index, std::move(inputs)); }

  /// Takes out `index`, whose outputs `into` makes from now on.
  void GiveOutput(int index, int into) {
    graph_.MoveOutputs(index, into);
    Kill(index);
  }

  /// Takes out an operator; what it makes must be unused or made by another.
  void Kill(int index) {
    SetInputs(index, {});
    if (static_cast<size_t>(index) >= dead_.size()) {
      dead_.resize(static_cast<size_t>(index) + 1, false);
    }
    dead_[static_cast<size_t>(index)] = true;
  }

  /// Removes what was taken out.
  void Finish() { graph_.Remove(dead_); }

 private:
  Graph& graph_;
  std::vector<bool> dead_;
};

}  // namespace oort
