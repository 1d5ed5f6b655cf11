// SPDX-License-Identifier: MIT
// Operators that are written in terms of simpler ones, as torch defines them. Such a Decomposition
// is a function that calls the others by their names. It serves two callers: the pass decompose,
// which puts the parts into the graph in place of the operator, and the layer of the operator
// (layers/composite/decomposition.h), which runs them where that pass could not.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oort/layer.h"

namespace oort {

/// Calls the parts of an operator.
///
/// A decomposition decides by what it is told. In the pass, an operand that no constant gives is a
/// deferred value: it can be handed on to a part, but asking for its rank, dtype or elements
/// throws, and then the operator is left to its layer. So a traced shape, which is a hint, never
/// decides.
class Decomposer {
 public:
  /// The name of an argument and what is given for it; "" where the position decides.
  using Argument = std::pair<std::string, Value>;

  virtual ~Decomposer() = default;

  /// The first output. Tensors become operands, other values parameters; None is not given at all.
  Value operator()(const std::string& type, const std::vector<Argument>& arguments) const {
    return All(type, arguments, 1).front();
  }
  std::vector<Value> All(const std::string& type, const std::vector<Argument>& arguments,
                         int outputs) const {
    return Module(type, arguments, {}, outputs);
  }
  /// The same for a type with weights, which must be constants. A `name` tells modules of one type
  /// apart; the weights of such a module may be without their elements once it was called.
  std::vector<Value> Module(const std::string& type, const std::vector<Argument>& arguments,
                            std::map<std::string, Tensor> attributes, int outputs = 1,
                            std::string name = "") const;
  /// A pnnx.Expression of tensors and numbers.
  Value Formula(const std::string& text, const std::vector<Value>& operands) const;
  /// The same elements under another shape.
  virtual Value Reshape(const Value& value, const Shape& shape) const = 0;

  /// Tells passes that a value will have the dtype and shape of another, for parts that do not know
  /// it without their weights.
  virtual void ExpectLike(const Value& /*value*/, const Value& /*other*/) const {}

  /// How many outputs the whole operator has.
  virtual int outputs() const = 0;
  /// Whether tensors have elements to look at.
  virtual bool computes() const = 0;

 protected:
  /// Calls `part`, whose inputs are `operands`: one for each of its input_names, with its
  /// parameters and attributes set.
  virtual std::vector<Value> Call(Operator part, const std::vector<Value>& operands,
                                  int outputs) const = 0;
};

/// Whether a value is or holds a tensor or what may become one.
bool HoldsTensors(const Value& value);
/// Whether a value is or holds what is not known yet.
bool HoldsDeferred(const Value& value);

}  // namespace oort
