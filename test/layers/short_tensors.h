// SPDX-License-Identifier: MIT
// Tensors that are written down number by number.
#pragma once

#include "oort/testing.h"

namespace oort::testing {

inline Tensor Floats(std::initializer_list<float> values, Shape shape) {
  return Tensor::From<float>(values, shape);
}
inline Tensor Ints(std::initializer_list<int64_t> values, Shape shape) {
  return Tensor::From<int64_t>(values, shape);
}
inline Tensor Vector(std::initializer_list<float> values) {
  return Floats(values, {static_cast<int64_t>(values.size())});
}
/// Positions, as sorting and searching give them.
inline Tensor Places(std::initializer_list<int64_t> values) {
  return Ints(values, {static_cast<int64_t>(values.size())});
}

}  // namespace oort::testing
