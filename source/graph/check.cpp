// SPDX-License-Identifier: MIT
#include <unordered_map>

#include "graph/problem_of.h"
#include "graph/topology.h"
#include "oort/graph.h"

namespace oort {
namespace {

class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph) {}

  std::vector<Problem> Run() {
    for (size_t i = 0; i < graph_.operators.size(); ++i) CheckOperator(static_cast<int>(i));
    CheckOperands();
    if (problems_.empty()) CheckOrder();
    return problems_.Listed();
  }

 private:
  void Report(const Operator& op, const std::string& what) { problems_.Add(ProblemOf(op, what)); }

  bool Exists(int operand) const {
    return operand >= 0 && static_cast<size_t>(operand) < graph_.operands.size();
  }
  const Operand& At(int operand) const { return graph_.operands[static_cast<size_t>(operand)]; }

  void CheckOperator(int index) {
    const Operator& op = graph_.operators[static_cast<size_t>(index)];
    if (op.type.empty() || op.name.empty()) Report(op, "type and name must not be empty");
    const auto [first, inserted] = names_.emplace(op.name, index);
    if (!inserted) {
      Report(op, "the name is taken by the operator in line " +
                     std::to_string(graph_.operators[static_cast<size_t>(first->second)].line));
    }
    for (int input : op.inputs) {
      if (!Exists(input)) Report(op, "an input is no operand of the graph");
    }
    for (int output : op.outputs) CheckOutput(op, index, output);
    if (op.type == "pnnx.Input" && (!op.inputs.empty() || op.outputs.size() != 1)) {
      Report(op, "an input of the model must have one output and no input");
    }
    if (op.type == "pnnx.Output" && !op.outputs.empty()) {
      Report(op, "an output of the model must have no output of its own");
    }
  }

  void CheckOutput(const Operator& op, int index, int output) {
    if (!Exists(output)) {
      Report(op, "an output is no operand of the graph");
      return;
    }
    const auto [first, inserted] = producers_.emplace(output, index);
    if (!inserted) {
      const Operator& other = graph_.operators[static_cast<size_t>(first->second)];
      Report(op,
             "operand " + Quote(At(output).name) + " is already produced by " + other.Describe());
    }
  }

  void CheckOperands() {
    for (size_t i = 0; i < graph_.operands.size(); ++i) {
      const Operand& operand = graph_.operands[i];
      const bool produced = producers_.count(static_cast<int>(i)) != 0;
      if (produced) continue;
      if (operand.consumers.empty()) continue;  // nobody misses it
      const size_t consumer = static_cast<size_t>(operand.consumers.front());
      if (consumer >= graph_.operators.size()) continue;
      Report(graph_.operators[consumer],
             "operand " + Quote(operand.name) + " is used but no operator produces it");
    }
  }

  void CheckOrder() {
    const std::vector<int> order = SortOperators(graph_);
    if (order.size() != graph_.operators.size()) {
      problems_.Add(ErrorCode::kInvalidModel, DescribeCycle(graph_, order));
    }
  }

  const Graph& graph_;
  ProblemList problems_;
  std::unordered_map<std::string_view, int> names_;
  std::unordered_map<int, int> producers_;
};

}  // namespace

std::vector<Problem> Graph::Check() const { return Checker(*this).Run(); }

}  // namespace oort
