// SPDX-License-Identifier: MIT
// Numbers as bytes: x is about (q - zero_point) * scale.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "oort/layer.h"

namespace oort {

inline constexpr DTypeSet kBytes = DType::kU8 | DType::kI8;

/// The least and the greatest integer of u8 or i8.
inline int32_t LeastByte(DType dtype) { return dtype == DType::kU8 ? 0 : -128; }
inline int32_t MostByte(DType dtype) { return dtype == DType::kU8 ? 255 : 127; }

/// One scale for all elements of a tensor.
struct Quantizer {
  float scale = 1;
  int32_t zero_point = 0;
};

/// The scale as f32; throws unless it is a number above 0 whose reciprocal is finite, too.
inline float CheckedScale(double scale) {
  const float narrow = static_cast<float>(scale);
  if (narrow > 0 && std::isfinite(narrow) && std::isfinite(1.0f / narrow)) return narrow;
  throw Error(ErrorCode::kInvalidModel,
              "expected a scale above 0 that is finite, as its reciprocal is, got " +
                  Value(scale).ToString());
}

/// Throws unless the zero point is one of the dtype's integers.
inline int32_t CheckedZeroPoint(int64_t zero_point, DType dtype) {
  if (zero_point >= LeastByte(dtype) && zero_point <= MostByte(dtype)) {
    return static_cast<int32_t>(zero_point);
  }
  throw Error(ErrorCode::kInvalidModel,
              "expected a zero point from " + std::to_string(LeastByte(dtype)) + " to " +
                  std::to_string(MostByte(dtype)) + ", got " + std::to_string(zero_point));
}

}  // namespace oort
