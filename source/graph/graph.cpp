// SPDX-License-Identifier: MIT
#include "oort/graph.h"

#include <algorithm>
#include <unordered_set>

#include "core/number_text.h"
#include "core/problems.h"
#include "graph/topology.h"

namespace oort {
namespace {

template <typename Items>
int FindByName(const Items& items, std::string_view name) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

/// The N of "pnnx_input_N"; a large number where the name has none, so that file order decides.
int64_t PortNumber(const std::string& name) {
  const size_t underscore = name.rfind('_');
  if (underscore == std::string::npos) return INT64_MAX;
  return ParseInt(std::string_view(name).substr(underscore + 1)).value_or(INT64_MAX);
}

std::vector<int> PortOperators(const Graph& graph, std::string_view type) {
  std::vector<int> ports;
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    if (graph.operators[i].type == type) ports.push_back(static_cast<int>(i));
  }
  std::stable_sort(ports.begin(), ports.end(), [&](int a, int b) {
    return PortNumber(graph.operators[static_cast<size_t>(a)].name) <
           PortNumber(graph.operators[static_cast<size_t>(b)].name);
  });
  return ports;
}

/// Forgets one use of an operand by an operator, which may have others.
void RemoveUse(Operand& operand, int op) {
  const auto use = std::find(operand.consumers.begin(), operand.consumers.end(), op);
  if (use != operand.consumers.end()) operand.consumers.erase(use);
}

}  // namespace

std::string Operator::Describe() const {
  std::string text = "operator " + Quote(FileName()) + " (" + Shorten(FileType());
  if (line > 0) text += ", line " + std::to_string(line);
  return text + ")";
}

int Graph::AddOperand(std::string name) {
  operands.emplace_back().name = std::move(name);
  return static_cast<int>(operands.size()) - 1;
}

int Graph::AddOperator(Operator op) {
  const int index = static_cast<int>(operators.size());
  for (int input : op.inputs) operands[static_cast<size_t>(input)].consumers.push_back(index);
  for (int output : op.outputs) operands[static_cast<size_t>(output)].producer = index;
  operators.push_back(std::move(op));
  return index;
}

int Graph::AddOperandLike(int like, std::string name) {
  CheckOperand("AddOperandLike", like);
  const int index = AddOperand(std::move(name));
  const Operand& from = operands[static_cast<size_t>(like)];
  Operand& to = operands[static_cast<size_t>(index)];
  to.dtype = from.dtype;
  to.has_shape = from.has_shape;
  to.shape = from.shape;
  return index;
}

int Graph::AddOperatorOn(int operand, Operator op, std::string result) {
  CheckOperand("AddOperatorOn", operand);
  op.inputs = {operand};
  op.outputs = {AddOperandLike(operand, std::move(result))};
  const int made = op.outputs[0];
  AddOperator(std::move(op));
  return made;
}

int Graph::FindOperator(std::string_view name) const { return FindByName(operators, name); }
int Graph::FindOperand(std::string_view name) const { return FindByName(operands, name); }

void Graph::CheckOperator(const char* what, int op) const {
  if (op >= 0 && static_cast<size_t>(op) < operators.size()) return;
  throw Error(ErrorCode::kInvalidArgument, std::string("Graph::") + what + ": expected one of " +
                                               std::to_string(operators.size()) +
                                               " operators, got " + std::to_string(op));
}

void Graph::CheckOperand(const char* what, int operand) const {
  if (operand >= 0 && static_cast<size_t>(operand) < operands.size()) return;
  throw Error(ErrorCode::kInvalidArgument, std::string("Graph::") + what + ": expected one of " +
                                               std::to_string(operands.size()) + " operands, got " +
                                               std::to_string(operand));
}

void Graph::CheckPlace(const char* what, size_t at, size_t count) const {
  if (at < count) return;
  throw Error(ErrorCode::kInvalidArgument, std::string("Graph::") + what + ": expected one of " +
                                               std::to_string(count) + " places, got " +
                                               std::to_string(at));
}

void Graph::ReplaceInput(int op, size_t at, int operand) {
  CheckOperator("ReplaceInput", op);
  CheckOperand("ReplaceInput", operand);
  std::vector<int>& inputs = operators[static_cast<size_t>(op)].inputs;
  CheckPlace("ReplaceInput", at, inputs.size());
  RemoveUse(operands[static_cast<size_t>(inputs[at])], op);
  operands[static_cast<size_t>(operand)].consumers.push_back(op);
  inputs[at] = operand;
}

void Graph::AddInput(int op, int operand, std::string name) {
  CheckOperator("AddInput", op);
  CheckOperand("AddInput", operand);
  Operator& reader = operators[static_cast<size_t>(op)];
  if (!name.empty() || !reader.input_names.empty()) {
    reader.input_names.resize(reader.inputs.size());
    reader.input_names.push_back(std::move(name));
  }
  reader.inputs.push_back(operand);
  operands[static_cast<size_t>(operand)].consumers.push_back(op);
}

void Graph::SetInputs(int op, std::vector<int> inputs) {
  CheckOperator("SetInputs", op);
  for (int input : inputs) CheckOperand("SetInputs", input);
  Operator& reader = operators[static_cast<size_t>(op)];
  for (int input : reader.inputs) RemoveUse(operands[static_cast<size_t>(input)], op);
  for (int input : inputs) operands[static_cast<size_t>(input)].consumers.push_back(op);
  reader.inputs = std::move(inputs);
  reader.input_names.clear();
}

void Graph::ReplaceOutput(int op, size_t at, int operand) {
  CheckOperator("ReplaceOutput", op);
  std::vector<int> outputs = operators[static_cast<size_t>(op)].outputs;
  CheckPlace("ReplaceOutput", at, outputs.size());
  outputs[at] = operand;
  SetOutputs(op, std::move(outputs));
}

void Graph::SetOutputs(int op, std::vector<int> outputs) {
  CheckOperator("SetOutputs", op);
  for (size_t i = 0; i < outputs.size(); ++i) {
    CheckOperand("SetOutputs", outputs[i]);
    const Operand& made = operands[static_cast<size_t>(outputs[i])];
    const bool twice = std::count(outputs.begin(), outputs.end(), outputs[i]) > 1;
    if ((made.producer < 0 || made.producer == op) && !twice) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "Graph::SetOutputs: operand " + Quote(made.name) + " would be produced twice");
  }
  Operator& maker = operators[static_cast<size_t>(op)];
  for (int output : maker.outputs) operands[static_cast<size_t>(output)].producer = -1;
  for (int output : outputs) operands[static_cast<size_t>(output)].producer = op;
  maker.outputs = std::move(outputs);
}

void Graph::MoveOutputs(int from, int to) {
  CheckOperator("MoveOutputs", from);
  CheckOperator("MoveOutputs", to);
  if (from == to) return;
  std::vector<int> outputs = operators[static_cast<size_t>(from)].outputs;
  SetOutputs(from, {});
  SetOutputs(to, std::move(outputs));
}

void Graph::ReplaceUses(int from, int to) {
  CheckOperand("ReplaceUses", from);
  CheckOperand("ReplaceUses", to);
  if (from == to) return;
  Operand& old_operand = operands[static_cast<size_t>(from)];
  Operand& new_operand = operands[static_cast<size_t>(to)];
  // An operator that reads `from` twice is listed twice and is done at the first.
  for (int consumer : old_operand.consumers) {
    for (int& input : operators[static_cast<size_t>(consumer)].inputs) {
      if (input == from) input = to;
    }
    new_operand.consumers.push_back(consumer);
  }
  old_operand.consumers.clear();
}

void Graph::Remove(const std::vector<bool>& dead) {
  std::vector<Operator> kept;
  kept.reserve(operators.size());
  for (size_t i = 0; i < operators.size(); ++i) {
    if (i >= dead.size() || !dead[i]) kept.push_back(std::move(operators[i]));
  }
  // Operands that nobody names any more go; the others are numbered anew in their old order.
  std::vector<int> renumbered(operands.size(), -1);
  for (const Operator& op : kept) {
    for (int operand : op.inputs) renumbered[static_cast<size_t>(operand)] = 0;
    for (int operand : op.outputs) renumbered[static_cast<size_t>(operand)] = 0;
  }
  std::vector<Operand> kept_operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (renumbered[i] < 0) continue;
    renumbered[i] = static_cast<int>(kept_operands.size());
    kept_operands.push_back(std::move(operands[i]));
    kept_operands.back().producer = -1;
    kept_operands.back().consumers.clear();
  }
  operands = std::move(kept_operands);
  operators.clear();
  for (Operator& op : kept) {
    for (int& operand : op.inputs) operand = renumbered[static_cast<size_t>(operand)];
    for (int& operand : op.outputs) operand = renumbered[static_cast<size_t>(operand)];
    AddOperator(std::move(op));
  }
}

std::vector<int> Graph::TopologicalOrder() const {
  std::vector<int> order = SortOperators(*this);
  if (order.size() != operators.size()) {
    throw Error(ErrorCode::kInvalidModel, DescribeCycle(*this, order));
  }
  return order;
}

std::vector<int> Graph::InputOperators() const { return PortOperators(*this, "pnnx.Input"); }
std::vector<int> Graph::OutputOperators() const { return PortOperators(*this, "pnnx.Output"); }

}  // namespace oort
