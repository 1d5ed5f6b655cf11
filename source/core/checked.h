// SPDX-License-Identifier: MIT
// Size arithmetic that cannot wrap: the only way to form sizes and offsets from untrusted numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "oort/error.h"

namespace oort {

template <typename T>
[[nodiscard]] inline bool AddOverflows(T a, T b, T* sum) {
  return __builtin_add_overflow(a, b, sum);
}
template <typename T>
[[nodiscard]] inline bool MultiplyOverflows(T a, T b, T* product) {
  return __builtin_mul_overflow(a, b, product);
}

template <typename T>
inline T CheckedAdd(T a, T b) {
  T sum;
  if (AddOverflows(a, b, &sum)) throw Error(ErrorCode::kInvalidArgument, "a size overflows");
  return sum;
}
template <typename T>
inline T CheckedMultiply(T a, T b) {
  T product;
  if (MultiplyOverflows(a, b, &product)) {
    throw Error(ErrorCode::kInvalidArgument, "a size overflows");
  }
  return product;
}

/// Whether [offset, offset+size) lies in [0, limit); by subtraction, so nothing wraps.
inline bool InRange(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline size_t AlignUp(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace oort
