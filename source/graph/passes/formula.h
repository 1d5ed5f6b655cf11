// SPDX-License-Identifier: MIT
// The text of a pnnx.Expression as a tree, for passes that look for patterns in it. The expressions
// that run are read by parser/expression, which stands above the graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oort {

/// A call `name(args)`, or a leaf without arguments: an operand "@0" or a literal "0.5".
struct Formula {
  std::string name;
  std::vector<Formula> args;

  bool IsCall(std::string_view function, size_t count) const {
    return name == function && args.size() == count;
  }
  /// The index of an operand, -1 for all else.
  int operand() const;
  /// The value of a leaf that is a number.
  std::optional<double> number() const;
  bool operator==(const Formula& other) const = default;

  std::string ToText() const;
  /// Nodes, itself included.
  size_t size() const;
};

/// Nothing for what is not made of calls and leaves alone, or is nested too deeply.
std::optional<Formula> ParseFormula(std::string_view text);

/// The formula with operand i replaced by replacements[i].
Formula Substitute(const Formula& formula, const std::vector<Formula>& replacements);

}  // namespace oort
