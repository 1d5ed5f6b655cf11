// SPDX-License-Identifier: MIT
// The graph as a file describes it: operators, operands, parameters and attributes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "oort/value.h"

namespace oort {

/// A `key=value` of an operator. The text is kept as written and typed on demand, because pnnx's
/// own typing loses information (`inf` becomes a string, `expr=3` an int).
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(std::string text) : text_(std::move(text)) {}
  /// Writes `value` the way pnnx does.
  static Parameter FromValue(const Value& value) { return Parameter(value.ToString()); }

  const std::string& text() const { return text_; }
  /// None, bool, int, float, complex, string, or a list of these. Never throws: what is nothing
  /// else is a string.
  Value value() const;

 private:
  std::string text_;
};

/// A node. Edges are indices into Graph::operands, never names.
struct Operator {
  std::string type;
  std::string name;
  std::vector<int> inputs;
  std::vector<int> outputs;
  /// The `$name=operand` of each input; empty where the file names none.
  std::vector<std::string> input_names;
  std::map<std::string, Parameter> params;
  std::map<std::string, Tensor> attributes;
  int line = 0;  ///< in the .param file; 0 for operators made by a pass
  /// Name and type of the operator of the file that this one is a part of; empty for all others.
  std::string whole_name, whole_type;

  /// Inputs, outputs and constants of the graph; every other operator needs a layer.
  bool IsPort() const {
    return type == "pnnx.Input" || type == "pnnx.Output" || type == "pnnx.Attribute";
  }
  /// As the file has them: those of the operator that this is a part of, or its own.
  const std::string& FileName() const { return whole_name.empty() ? name : whole_name; }
  const std::string& FileType() const { return whole_type.empty() ? type : whole_type; }
  /// "operator 'layer1.0.conv1' (nn.Conv2d, line 7)", as the file has it.
  std::string Describe() const;
};

/// An edge: one producer, any number of consumers. Shape and dtype are hints from the trace.
struct Operand {
  std::string name;
  int producer = -1;
  std::vector<int> consumers;  ///< one entry a use, so an operator may appear twice
  DType dtype = DType::kNull;  ///< kNull: unknown
  bool has_shape = false;
  Shape shape;  ///< Shape::kUnknown for `?`
};

/// Thread contract: none; a Graph is built and rewritten by one thread.
class Graph {
 public:
  std::vector<Operator> operators;
  std::vector<Operand> operands;

  /// Adds an operand and returns its index.
  int AddOperand(std::string name);
  /// The same, with the traced dtype and shape of operand `like`.
  int AddOperandLike(int like, std::string name);
  /// Adds an operator and enters it into its operands; returns its index.
  int AddOperator(Operator op);
  /// Adds `op` with `operand` as its only input, and an operand like it, called `result`, as its
  /// only output; returns that. Who is to read the result is for ReplaceInput or ReplaceUses.
  int AddOperatorOn(int operand, Operator op, std::string result);
  int FindOperator(std::string_view name) const;  ///< -1 if there is none
  int FindOperand(std::string_view name) const;   ///< -1 if there is none

  // Edge surgery. An edge is known to the operator at its end and to its operand; these methods
  // keep both in step. They throw kInvalidArgument, and change nothing, where an operator, a place
  // or an operand does not exist, or where an operand would get a second producer.

  /// Operator `op` reads `operand` as its input `at`; the name of that input stays.
  void ReplaceInput(int op, size_t at, int operand);
  /// Operator `op` reads one more operand, as its last input; inputs before it keep their names.
  void AddInput(int op, int operand, std::string name = "");
  /// Operator `op` reads these operands by position: names of its inputs go.
  void SetInputs(int op, std::vector<int> inputs);
  /// Operator `op` makes `operand` as its output `at`; what it made there has no producer then.
  void ReplaceOutput(int op, size_t at, int operand);
  /// Operator `op` makes these operands; of what it made before, the others have no producer then.
  void SetOutputs(int op, std::vector<int> outputs);
  /// Operator `to` makes what `from` made, which makes nothing then.
  void MoveOutputs(int from, int to);
  /// Every use of operand `from` becomes a use of `to`.
  void ReplaceUses(int from, int to);
  /// Detaches the operators whose flag is set and renumbers operators and operands;
  /// operands without a producer and without uses go too.
  void Remove(const std::vector<bool>& dead);

  /// Everything wrong with the structure: dangling or doubly produced operands, duplicate names,
  /// cycles (with the operators that form them), attributes that do not fit.
  std::vector<Problem> Check() const;
  /// Operator indices, producers first; ties keep file order. Throws kInvalidModel on a cycle.
  std::vector<int> TopologicalOrder() const;

  /// Operators of type pnnx.Input / pnnx.Output in the order of the numbers in their names.
  std::vector<int> InputOperators() const;
  std::vector<int> OutputOperators() const;

 private:
  void CheckOperator(const char* what, int op) const;
  void CheckOperand(const char* what, int operand) const;
  void CheckPlace(const char* what, size_t at, size_t count) const;
};

}  // namespace oort
