// SPDX-License-Identifier: MIT
// From an expression and what its operands are to what it gives: numbers are computed at once,
// operations on tensors become a Dag with the dtypes that torch would give each of them.
#pragma once

#include <span>
#include <vector>

#include "layers/expression/dag.h"
#include "oort/value.h"
#include "parser/expression/program.h"

namespace oort::expression {

/// What an expression, or a part of it, stands for.
struct Item {
  enum Kind : unsigned char {
    kValue,   ///< a number, None, a string or a list, known now
    kLater,   ///< a number that depends on elements; only its kind is known
    kTensor,  ///< node `node` of the Dag
    kList,    ///< `items`
    kUnknown  ///< anything: an operand is not known yet
  };
  Kind kind = kValue;
  Value value;                 ///< for kValue
  DType dtype = DType::kNull;  ///< of a tensor, or the kind of a number that comes later
  Shape shape;                 ///< for kTensor
  int node = -1;               ///< for kTensor
  int operand = -1;            ///< for kTensor: set if it is an operand as it is
  bool ready = true;           ///< for kTensor: all that it is computed from has elements
  std::vector<Item> items;     ///< for kList

  bool IsTensor() const { return kind == kTensor; }
};

struct Lowered {
  explicit Lowered(Isa isa) : dag(isa) {}
  Dag dag;
  Item result;
};

/// Throws what torch would refuse, with the column where the program has one.
Lowered Lower(const Program& program, std::span<const Value* const> operands, Isa isa);

}  // namespace oort::expression
