// SPDX-License-Identifier: MIT
// References for operators that move elements, written element by element over coordinates.
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

using Coordinates = std::vector<int64_t>;

/// One dtype of every item size (1, 2, 4, 8 and 16 bytes), and bool.
inline const std::vector<DType>& MovedDTypes() {
  static const std::vector<DType> dtypes = {DType::kF32, DType::kU8,   DType::kBF16,
                                            DType::kI64, DType::kC128, DType::kBool};
  return dtypes;
}

inline Coordinates CoordinatesOf(const Shape& shape, int64_t flat) {
  Coordinates at(static_cast<size_t>(shape.rank()));
  for (int i = shape.rank(); i-- > 0;) {
    at[static_cast<size_t>(i)] = flat % shape[i];
    flat /= shape[i];
  }
  return at;
}

inline int64_t FlatIndex(const Shape& shape, const Coordinates& at) {
  int64_t flat = 0;
  for (int i = 0; i < shape.rank(); ++i) flat = flat * shape[i] + at.at(static_cast<size_t>(i));
  return flat;
}

/// A tensor whose element at `c` is input[from(c)]; zero where `from` gives {-1}.
inline Tensor Moved(const Tensor& input, const Shape& shape,
                    const std::function<Coordinates(Coordinates)>& from) {
  Tensor output = Tensor::Zeros(input.dtype(), shape);
  const size_t item = ItemSize(input.dtype());
  for (int64_t i = 0; i < output.elements(); ++i) {
    const Coordinates source = from(CoordinatesOf(shape, i));
    if (source == Coordinates{-1}) continue;
    std::memcpy(output.raw() + static_cast<size_t>(i) * item,
                input.raw() + static_cast<size_t>(FlatIndex(input.shape(), source)) * item, item);
  }
  return output;
}

/// "(1,-2,3)", as pnnx writes lists.
inline std::string ListText(const std::vector<int64_t>& values) {
  return Value::Ints(values).ToString();
}

}  // namespace oort::testing
