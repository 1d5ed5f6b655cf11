// SPDX-License-Identifier: MIT
// Padding of dense tensors, for the pad operators and for convolutions with a padding mode.
#pragma once

#include <array>
#include <string_view>

#include "oort/layer.h"

namespace oort {

enum class PadMode {
  kConstant,
  kReflect,    ///< mirrored without repeating the border: c b | a b c | b a
  kReplicate,  ///< a a | a b c | c c
  kCircular,   ///< b c | a b c | a b
};

/// "constant" (or "zeros"), "reflect", "replicate", "circular"; throws kInvalidArgument otherwise.
PadMode ParsePadMode(std::string_view name);

/// What is added before and after each axis; a negative number cuts off.
struct Padding {
  std::array<int64_t, Shape::kMaxRank> before{}, after{};
  PadMode mode = PadMode::kConstant;

  /// From torch's list: pairs (before, after) from the last axis backwards.
  static Padding FromTorch(std::span<const int64_t> pairs, int rank, PadMode mode);
  /// The padded shape; throws where it would be negative, or where a reflection or a wrap reaches
  /// beyond the input.
  Shape Apply(const Shape& input) const;
};

/// Fills `output`, which has the padded shape and the dtype of `input`. Constant padding writes
/// `value` (a number) converted to that dtype.
void PadCopy(const Context& context, const Tensor& input, const Padding& padding,
             const Value& value, Tensor& output);

}  // namespace oort
