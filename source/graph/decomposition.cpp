// SPDX-License-Identifier: MIT
#include "graph/decomposition.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace oort {
namespace {

/// Numbers that can stand in the text of a formula.
bool IsLiteral(const Value& value) {
  return value.IsInt() || (value.IsFloat() && std::isfinite(value.AsFloat()));
}

}  // namespace

bool HoldsTensors(const Value& value) {
  if (!value.IsList()) return value.IsTensor() || value.IsDeferred();
  return std::any_of(value.AsList().begin(), value.AsList().end(), HoldsTensors);
}

bool HoldsDeferred(const Value& value) {
  if (!value.IsList()) return value.IsDeferred();
  return std::any_of(value.AsList().begin(), value.AsList().end(), HoldsDeferred);
}

std::vector<Value> Decomposer::Module(const std::string& type,
                                      const std::vector<Argument>& arguments,
                                      std::map<std::string, Tensor> attributes, int outputs,
                                      std::string name) const {
  Operator part;
  part.name = std::move(name);
  part.type = type;
  part.attributes = std::move(attributes);
  std::vector<Value> operands;
  for (const auto& [argument, value] : arguments) {
    if (value.IsNone()) continue;
    if (HoldsTensors(value) || argument.empty()) {
      part.input_names.push_back(argument);
      operands.push_back(value);
    } else {
      part.params[argument] = Parameter::FromValue(value);
    }
  }
  return Call(std::move(part), operands, outputs);
}

Value Decomposer::Formula(const std::string& text, const std::vector<Value>& operands) const {
  std::string formula;
  std::vector<Value> used;
  std::vector<std::string> names(operands.size());  // that each operand has in the formula
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '@') {
      formula += text[at++];
      continue;
    }
    size_t index = 0;
    const char* end = text.data() + text.size();
    at = static_cast<size_t>(std::from_chars(text.data() + at + 1, end, index).ptr - text.data());
    std::string& name = names.at(index);
    if (name.empty() && IsLiteral(operands[index])) {
      name = operands[index].ToString();
    } else if (name.empty()) {
      name = "@" + std::to_string(used.size());
      used.push_back(operands[index]);
    }
    formula += name;
  }
  Operator part;
  part.type = "pnnx.Expression";
  part.params["expr"] = Parameter(std::move(formula));
  part.input_names.resize(used.size());
  return Call(std::move(part), used, 1).front();
}

}  // namespace oort
