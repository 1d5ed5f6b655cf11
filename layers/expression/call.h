// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "layers/expression/lower.h"

namespace oort::expression {

/// `function` of items: a number if all of them are numbers, else a node of the Dag.
Item CallFunction(Dag& dag, Function function, std::span<const Item> args);

/// torch.<dtype>(x)
Item CastItem(Dag& dag, const Item& x, DType dtype);

Item NumberItem(Value value);

}  // namespace oort::expression
