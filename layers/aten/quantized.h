// SPDX-License-Identifier: MIT
// A quantized tensor is held as a list: its integers, a scale and a zero point; or, where each
// slice of an axis has its own, its integers, the scales, the zero points and the axis. So an
// operator that does not know of these refuses it instead of reading the integers as numbers.
#pragma once

#include "oort/layer.h"

namespace oort {

inline constexpr DTypeSet kQuantizedInts = DType::kI8 | DType::kU8 | DType::kI32;

/// Whether a value is a quantized tensor with one scale.
inline bool IsQuantized(const Value& value) {
  return value.IsList() && value.AsList().size() == 3 && value.AsList()[0].IsTensor() &&
         kQuantizedInts.Contains(value.AsList()[0].AsTensor().dtype());
}

/// Whether it is one with a scale for each slice of an axis.
inline bool IsQuantizedPerChannel(const Value& value) {
  return value.IsList() && value.AsList().size() == 4 && value.AsList()[0].IsTensor() &&
         value.AsList()[1].IsTensor() && value.AsList()[2].IsTensor() && value.AsList()[3].IsInt();
}

inline void RequireQuantized(const Value& value) {
  if (IsQuantized(value)) return;
  throw Error(ErrorCode::kUnsupported,
              "takes what an operator of this graph has quantized; the scale of any other "
              "tensor is not in the file");
}

}  // namespace oort
