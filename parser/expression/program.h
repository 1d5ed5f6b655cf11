// SPDX-License-Identifier: MIT
// An expression in reverse Polish notation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oort/value.h"
#include "parser/expression/function.h"

namespace oort::expression {

/// One step: takes `count` values from the stack and puts one back.
struct Step {
  enum Kind : unsigned char {
    kOperand,  ///< input number `index`
    kLiteral,  ///< Program::literals[index]
    kCall,     ///< `function` of `count` arguments
    kCast,     ///< torch.<dtype>(x)
    kInt,      ///< int(x)
    kSize,     ///< size(x) or size(x, axis)
    kList,     ///< a list of the last `count` values
  };
  Kind kind = kLiteral;
  Function function = Function::kAbs;
  DType dtype = DType::kNull;
  int count = 0;
  int index = 0;
  int column = 1;  ///< where it stands in the text, for messages
};

struct Program {
  std::vector<Step> steps;
  std::vector<Value> literals;
  int operands = 0;  ///< one more than the highest operand that is named

  /// "@0 @1 add", for tests and logs.
  std::string ToString() const;
};

/// Reads what pnnx writes: prefix notation in which every function has a fixed number of
/// arguments, so that parentheses and commas only separate. That also reads the damaged
/// `log1p,@0`. Throws kInvalidModel with the column of what is wrong. Needs no recursion: no text
/// can exhaust the stack.
Program Parse(std::string_view text);

}  // namespace oort::expression
