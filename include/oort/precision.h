// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace oort {

/// What matrix products and convolutions multiply. Sums are f32, but for f16 on the CPU. What lies
/// in memory between operators has 16 bits where the factors have, as in torch after model.half();
/// on the CPU with f16 only.
enum class Precision : unsigned char {
  kF32,
  kBF16,  ///< both factors are rounded to bf16: on matrix units where the processor has them
  kF16,   ///< to f16: GPUs, and CPUs with arithmetic on f16 vectors, which sum in it as well
  kTF32,  ///< to 10 bits behind the point, all else is f32: GPUs only
};
std::string_view Name(Precision precision);
/// Throws kInvalidArgument unless it is a name of one.
Precision PrecisionOf(std::string_view name);

}  // namespace oort
