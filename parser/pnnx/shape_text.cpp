// SPDX-License-Identifier: MIT
#include "parser/pnnx/shape_text.h"

#include "core/checked.h"
#include "core/number_text.h"
#include "core/problems.h"

namespace oort::pnnx {
namespace {

std::optional<int64_t> ParseExtent(std::string_view text) {
  if (text == "?") return Shape::kUnknown;
  const auto extent = ParseInt(text);
  if (!extent || *extent < 0) return {};
  return extent;
}

/// The product of the known extents must fit, or no tensor can have this shape.
bool ElementsOverflow(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (extent > 0 && MultiplyOverflows(product, extent, &product)) return true;
  }
  return false;
}

}  // namespace

std::optional<ShapedType> ParseShapedType(std::string_view text, std::string* error) {
  const size_t close = text.find(')');
  if (!text.starts_with('(') || close == text.npos) {
    *error = "expected (shape)dtype, got " + Quote(text);
    return {};
  }
  ShapedType result;
  std::string_view extents = text.substr(1, close - 1);
  while (!extents.empty()) {
    const size_t comma = extents.find(',');
    const std::string_view word = extents.substr(0, comma);
    const auto extent = ParseExtent(word);
    if (!extent || comma + 1 == extents.size()) {
      *error = "expected an extent of at least 0 that fits 64 bits, got " +
               Quote(extent ? "" : word) + " in " + Quote(text);
      return {};
    }
    if (result.shape.rank() == Shape::kMaxRank) {
      *error = "the rank of " + Quote(text) + " is over the limit of 8";
      return {};
    }
    result.shape.Append(*extent);
    extents.remove_prefix(comma == extents.npos ? extents.size() : comma + 1);
  }
  if (ElementsOverflow(result.shape)) {
    *error = "the shape " + Quote(text) + " has too many elements (overflow)";
    return {};
  }
  const std::string_view dtype = text.substr(close + 1);
  result.dtype = ParseDType(dtype);
  if (result.dtype == DType::kNull && dtype != Name(DType::kNull)) {
    *error = "the dtype " + Quote(dtype) + " is unknown";
    return {};
  }
  return result;
}

}  // namespace oort::pnnx
