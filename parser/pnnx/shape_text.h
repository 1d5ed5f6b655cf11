// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "oort/dtype.h"
#include "oort/shape.h"

namespace oort::pnnx {

struct ShapedType {
  Shape shape;  ///< Shape::kUnknown for `?`
  DType dtype = DType::kNull;
};

/// Reads "(1,?,224)f32". On failure returns nothing and says why in `error`.
std::optional<ShapedType> ParseShapedType(std::string_view text, std::string* error);

}  // namespace oort::pnnx
