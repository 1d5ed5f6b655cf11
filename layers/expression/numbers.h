// SPDX-License-Identifier: MIT
// Arithmetic on numbers that are no tensors: sizes, index lists, literals.
#pragma once

#include <span>

#include "oort/value.h"
#include "parser/expression/function.h"

namespace oort::expression {

/// `function` of bools, ints, floats and complex numbers: integers stay integers where torch's
/// integer tensors would, `div` and sqrt and their like give floats, rounding gives ints.
Value EvaluateNumbers(Function function, std::span<const Value> args);

/// The kind of number that EvaluateNumbers gives, from the kinds of its arguments (as
/// NumberDType tells them).
DType NumberResult(Function function, std::span<const DType> args);

/// int(x), or torch.<dtype>(x).
Value ToIntNumber(const Value& number);
Value CastNumber(const Value& number, DType dtype);

}  // namespace oort::expression
