// SPDX-License-Identifier: MIT
// Short names for the values that ATen's operators take.
#pragma once

#include <vector>

#include "aten_form.h"

namespace oort::testing {
inline Tensor F(std::initializer_list<float> values, Shape shape) {
  return Tensor::From<float>(values, shape);
}
inline Tensor D(std::initializer_list<double> values, Shape shape) {
  return Tensor::From<double>(values, shape);
}
inline Tensor I(std::initializer_list<int64_t> values, Shape shape) {
  return Tensor::From<int64_t>(values, shape);
}
inline Tensor B(std::initializer_list<int64_t> values, Shape shape) {
  return Tensor::From<int64_t>(values, shape).To(DType::kBool);
}
inline Value L(std::initializer_list<Value> values) { return Value(Value::List(values)); }

/// Every argument an input, so that none of the parameters is known when the model is loaded.
inline void Check(const char* type, std::initializer_list<Value> inputs,
                  const std::vector<Tensor>& expected) {
  SCOPED_TRACE(type);
  OperatorCase tested(type);
  for (const Value& input : inputs) tested.Input(input);
  tested.Outputs(static_cast<int>(expected.size())).ExpectOutputs(expected, {1e-5, 1e-4});
}

}  // namespace oort::testing
