// SPDX-License-Identifier: MIT
#include "graph/topology.h"

#include <algorithm>
#include <queue>

#include "core/problems.h"

namespace oort {
namespace {

/// The producer of an input, or -1: indices may come from a graph that was never checked.
int ProducerOf(const Graph& graph, int operand) {
  if (operand < 0 || static_cast<size_t>(operand) >= graph.operands.size()) return -1;
  const int producer = graph.operands[static_cast<size_t>(operand)].producer;
  return producer < static_cast<int>(graph.operators.size()) ? producer : -1;
}

}  // namespace

std::vector<int> SortOperators(const Graph& graph) {
  const size_t count = graph.operators.size();
  std::vector<int> waiting(count, 0);
  std::vector<std::vector<int>> consumers(count);
  for (size_t i = 0; i < count; ++i) {
    for (int input : graph.operators[i].inputs) {
      const int producer = ProducerOf(graph, input);
      if (producer < 0) continue;
      ++waiting[i];
      consumers[static_cast<size_t>(producer)].push_back(static_cast<int>(i));
    }
  }
  // The smallest index first keeps the order of the file, whatever the number of roots.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  order.reserve(count);
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(next);
    for (int consumer : consumers[static_cast<size_t>(next)]) {
      if (--waiting[static_cast<size_t>(consumer)] == 0) ready.push(consumer);
    }
  }
  return order;
}

std::string DescribeCycle(const Graph& graph, const std::vector<int>& sorted) {
  std::vector<bool> placed(graph.operators.size(), false);
  for (int index : sorted) placed[static_cast<size_t>(index)] = true;
  const auto stuck = std::find(placed.begin(), placed.end(), false);
  if (stuck == placed.end()) return "operators form no cycle";
  // Each operator that is stuck has an input from one that is stuck: walking back must come round.
  std::vector<int> walk;
  std::vector<int> position(graph.operators.size(), -1);
  int current = static_cast<int>(stuck - placed.begin());
  while (position[static_cast<size_t>(current)] < 0) {
    position[static_cast<size_t>(current)] = static_cast<int>(walk.size());
    walk.push_back(current);
    for (int input : graph.operators[static_cast<size_t>(current)].inputs) {
      const int producer = ProducerOf(graph, input);
      if (producer >= 0 && !placed[static_cast<size_t>(producer)]) {
        current = producer;
        break;
      }
    }
  }
  walk.erase(walk.begin(), walk.begin() + position[static_cast<size_t>(current)]);
  std::reverse(walk.begin(), walk.end());  // from producer to consumer
  constexpr size_t kMost = 8;
  std::string text = "operators form a cycle: ";
  for (size_t i = 0; i < walk.size() && i < kMost; ++i) {
    text += Quote(graph.operators[static_cast<size_t>(walk[i])].name) + " -> ";
  }
  if (walk.size() > kMost) text += "… (" + std::to_string(walk.size()) + " in all) -> ";
  return text + Quote(graph.operators[static_cast<size_t>(walk.front())].name);
}

}  // namespace oort
