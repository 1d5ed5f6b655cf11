// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace oort {

/// What matrix products and convolutions multiply. Sums, and what lies in memory between operators,
/// are f32 in every case.
enum class Precision : unsigned char {
  kF32,
  kBF16,  ///< both factors are rounded to bf16: on matrix units where the processor has them
};
std::string_view Name(Precision precision);
/// Throws kInvalidArgument unless it is a name of one.
Precision PrecisionOf(std::string_view name);

}  // namespace oort
