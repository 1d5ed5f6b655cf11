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

int Graph::FindOperator(std::string_view name) const { return FindByName(operators, name); }
int Graph::FindOperand(std::string_view name) const { return FindByName(operands, name); }

void Graph::ReplaceUses(int from, int to) {
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
