// SPDX-License-Identifier: MIT
// The parameters `activation`, `activation_a` and `activation_b` of operators that passes make.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "cpu/activation.h"
#include "oort/layer.h"

namespace oort {

inline OperatorSchema AddActivation(OperatorSchema schema) {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(Activation::kMish); ++kind) {
    names.emplace_back(Name(static_cast<Activation>(kind)));
  }
  schema.String("activation", "none").OneOf(std::move(names));
  schema.Float("activation_a", 0).Float("activation_b", 0);
  return schema;
}

inline ActivationSpec ReadActivation(const LayerInit& init) {
  const auto number = [&](const char* name) {
    const double value = init.Float(name);
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (std::isinf(value) || std::fabs(value) <= kLargest) return static_cast<float>(value);
    throw Error(ErrorCode::kInvalidModel, std::string(name) + " does not fit into f32");
  };
  // The schema has let only these names pass.
  return {ActivationNamed(init.String("activation")).value_or(Activation::kNone),
          number("activation_a"), number("activation_b")};
}

}  // namespace oort
