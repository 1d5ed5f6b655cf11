// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dispatch.h"

namespace oort {

/// What sums of products of T are computed in. Integers wrap as in torch: without a sign, and in
/// 64 bits, so that no promotion brings it back.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

/// The dtypes that plain loops take, beside the f32 and 16-bit floats of the fast layers.
inline constexpr DTypeSet kPlainDTypes = DType::kF64 | DType::kC64 | DType::kC128 | kIntegers;

/// Calls visit(TypeTag<T>{}) for one of kPlainDTypes.
template <typename Visitor>
void VisitPlain(DType dtype, const Visitor& visit) {
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr bool kPlain = !kIsHalf<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, float>;
    if constexpr (kPlain) {
      visit(tag);
    } else {
      throw Error(ErrorCode::kInternal, "no plain loops of dtype " + std::string(Name(dtype)));
    }
  });
}

}  // namespace oort
