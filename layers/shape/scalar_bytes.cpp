// SPDX-License-Identifier: MIT
#include "layers/shape/scalar_bytes.h"

#include <cstring>

#include "core/dispatch.h"

namespace oort {

std::array<std::byte, 16> ScalarBytes(const Value& value, DType dtype) {
  std::array<std::byte, 16> bytes{};
  if (value.IsTensor()) {
    const Tensor item = value.AsTensor().To(dtype);
    if (item.elements() != 1 || !item.has_data()) {
      throw Error(ErrorCode::kInvalidArgument, "expected one element, got " + item.ToString());
    }
    std::memcpy(bytes.data(), item.raw(), ItemSize(dtype));
    return bytes;
  }
  // c32 has no C++ type, but its zero is all zeros like any other.
  if (!value.IsNumber()) value.AsFloat();
  if (value.AsComplex() == 0.0) return bytes;
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // Integers go straight, since not all of them fit a double.
    const T item =
        value.IsInt() ? ConvertElement<T>(value.AsInt()) : ConvertElement<T>(value.AsComplex());
    std::memcpy(bytes.data(), &item, sizeof(item));
  });
  return bytes;
}

}  // namespace oort
