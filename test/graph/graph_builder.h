// SPDX-License-Identifier: MIT
// Small graphs for tests, written as the text of a .param file.
#pragma once

#include <algorithm>
#include <string>

#include "oort/oort.h"

namespace oort {

/// Reads `lines` (operators only) as a .param file; attributes have no elements.
inline Graph GraphFromText(const std::string& lines) {
  int operators = 0;
  for (char c : lines) operators += c == '\n';
  // The reader holds the number of operands against the file, so count the distinct outputs by
  // letting it tell: a generous number would be refused.
  std::string text = "7767517\n" + std::to_string(operators) + " ";
  std::string operands;
  int count = 0;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    const std::string line = lines.substr(begin, end - begin);
    char type[128], name[128];
    int inputs = 0, outputs = 0;
    if (std::sscanf(line.c_str(), "%127s %127s %d %d", type, name, &inputs, &outputs) == 4) {
      count += outputs;
    }
    begin = end + 1;
  }
  text += std::to_string(count) + "\n" + lines;
  return ReadPnnxParam(*ByteSource::Owned(text));
}

/// What is wrong with the edges of a graph: every operand must know the operator that makes it and
/// the uses of it that operators have, no more and no fewer. Empty where all is well.
inline std::string EdgeProblems(const Graph& graph) {
  std::vector<int> producers(graph.operands.size(), -1);
  std::vector<std::vector<int>> consumers(graph.operands.size());
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    for (int output : graph.operators[i].outputs) {
      producers.at(static_cast<size_t>(output)) = static_cast<int>(i);
    }
    for (int input : graph.operators[i].inputs) {
      consumers.at(static_cast<size_t>(input)).push_back(static_cast<int>(i));
    }
  }
  std::string problems;
  for (size_t i = 0; i < graph.operands.size(); ++i) {
    std::vector<int> known = graph.operands[i].consumers;
    std::sort(known.begin(), known.end());
    if (graph.operands[i].producer != producers[i]) {
      problems += "producer of " + graph.operands[i].name + "\n";
    }
    if (known != consumers[i]) problems += "consumers of " + graph.operands[i].name + "\n";
  }
  return problems;
}

/// "nn.ReLU nn.Linear": the types of the operators in order.
inline std::string Types(const Graph& graph) {
  std::string types;
  for (const Operator& op : graph.operators) types += (types.empty() ? "" : " ") + op.type;
  return types;
}

}  // namespace oort
