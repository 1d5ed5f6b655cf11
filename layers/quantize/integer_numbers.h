// SPDX-License-Identifier: MIT
// The numbers with which sums of bytes become results. Kernels of every device get the same floats,
// so that they give the same bits.
#pragma once

#include <span>
#include <vector>

#include "core/activation.h"
#include "layers/quantize/quantizer.h"

namespace oort {

/// The numbers behind the integers of a convolution.
struct IntegerScales {
  Quantizer input;
  Quantizer addend;
  Quantizer output;           ///< unused where the result is f32
  DType result = DType::kU8;  ///< u8, i8 or f32
  ActivationSpec activation;
};

/// 255 * 128 times so many fit into s32.
inline constexpr int64_t kMostIntegerTerms = 65793;

/// What becomes of the sums of each channel: sum * scale + bias + addend * addend_scale. Where it
/// is `direct`, that is in steps of the output and lies from `low` to `high`; else it is a number
/// that is activated, and then quantized where the result is bytes.
struct IntegerNumbers {
  std::vector<float> scale;  ///< one for each output channel
  std::vector<float> bias;   ///< with what the zero point of the addend takes away
  float addend_scale = 1;
  float low = 0, high = 0;  ///< within the integers of the result, less its zero point
  bool direct = true;
};
/// `bias` may be empty.
IntegerNumbers IntegerNumbersOf(const IntegerScales& numbers, std::span<const float> scales,
                                std::span<const float> bias);

}  // namespace oort
