// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"

namespace oort {

void RemoveDeadCode(Graph& graph, const PassContext&) {
  std::vector<bool> dead(graph.operators.size(), true);
  std::vector<int> pending;
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const std::string& type = graph.operators[i].type;
    if (type == "pnnx.Output") pending.push_back(static_cast<int>(i));
    if (type == "pnnx.Input") dead[i] = false;  // callers count on their positions
  }
  while (!pending.empty()) {
    const size_t index = static_cast<size_t>(pending.back());
    pending.pop_back();
    if (!dead[index] && graph.operators[index].type != "pnnx.Input") continue;
    dead[index] = false;
    for (int input : graph.operators[index].inputs) {
      const int producer = graph.operands[static_cast<size_t>(input)].producer;
      if (producer >= 0 && dead[static_cast<size_t>(producer)]) pending.push_back(producer);
    }
  }
  graph.Remove(dead);
}

}  // namespace oort
