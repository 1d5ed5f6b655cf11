// SPDX-License-Identifier: MIT
// The graph as it runs, as text for other programs: DOT and .param.
#include "cli/markup.h"
#include "cli/profile_report.h"

namespace oort::cli {
namespace {

std::string OperandText(const Operand& operand) {
  if (!operand.has_shape) return "";
  return operand.shape.ToString() + std::string(Name(operand.dtype));
}

std::map<std::string, const ProfileOperator*> ByName(const ProfileReport& report) {
  std::map<std::string, const ProfileOperator*> found;
  for (const ProfileOperator& op : report.operators) found[op.name] = &op;
  return found;
}

std::string NodeLine(size_t index, const Operator& op, const ProfileOperator* timed) {
  std::string label = EscapeDot(op.name) + "\\n" + EscapeDot(op.type);
  std::string color = op.IsPort() ? "#e8eef7" : "#ffffff";
  if (timed != nullptr) {
    label += "\\n" + FormatFixed(timed->cost.seconds * 1e3, 3) + " ms, " +
             FormatFixed(100 * timed->share, 1) + " %";
    if (timed->cost.ideal > 0) {
      label += "\\n" + FormatFixed(100 * timed->cost.roof(), 0) + " % of " + timed->bound;
    }
    if (!timed->sharing.empty()) label += "\\n" + EscapeDot(timed->sharing);
    color = ShareColor(timed->share);
  }
  return "  n" + std::to_string(index) + " [label=\"" + label + "\", fillcolor=\"" + color +
         "\"];\n";
}

}  // namespace

std::string ProfileDot(const ProfileReport& report) {
  const auto timed = ByName(report);
  std::string dot = "digraph \"" + EscapeDot(report.model) +
                    "\" {\n"
                    "  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\"];\n"
                    "  edge [fontname=\"sans-serif\", fontsize=10];\n";
  for (size_t i = 0; i < report.graph.operators.size(); ++i) {
    const Operator& op = report.graph.operators[i];
    const auto found = timed.find(op.name);
    dot += NodeLine(i, op, found == timed.end() ? nullptr : found->second);
  }
  for (const Operand& operand : report.graph.operands) {
    if (operand.producer < 0) continue;
    for (const int consumer : operand.consumers) {
      dot += "  n" + std::to_string(operand.producer) + " -> n" + std::to_string(consumer) +
             " [label=\"" + EscapeDot(OperandText(operand)) + "\"];\n";
    }
  }
  return dot + "}\n";
}

std::string ProfileParam(const ProfileReport& report) {
  const auto timed = ByName(report);
  Graph ordered;  // passes add operators at the end, but readers want producers first
  for (const Operand& operand : report.graph.operands) {
    Operand& copy = ordered.operands[static_cast<size_t>(ordered.AddOperand(operand.name))];
    copy.dtype = operand.dtype;
    copy.has_shape = operand.has_shape;
    copy.shape = operand.shape;
  }
  for (const int index : report.graph.TopologicalOrder()) {
    Operator op = report.graph.operators[static_cast<size_t>(index)];
    if (const auto found = timed.find(op.name); found != timed.end()) {
      op.params["profile_ms"] = Parameter(FormatFixed(found->second->cost.seconds * 1e3, 4));
      op.params["profile_percent"] = Parameter(FormatFixed(100 * found->second->share, 2));
    }
    ordered.AddOperator(std::move(op));
  }
  return PnnxParamText(ordered);
}

}  // namespace oort::cli
