// SPDX-License-Identifier: MIT
// The activations that are cheap enough to stand in an unrolled loop.
#pragma once

#include <limits>

#include "cuda/epilogue.h"

namespace oort::cuda {

struct FastActivation {
  float low, high;   ///< what the curve is limited to
  Activation curve;  ///< kNone, kSilu or kHardswish

  static bool Supports(Activation kind) {
    return kind == Activation::kNone || kind == Activation::kRelu || kind == Activation::kClamp ||
           kind == Activation::kSilu || kind == Activation::kHardswish;
  }

  static FastActivation Of(const Epilogue& epilogue) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    FastActivation made = {-kInfinity, kInfinity, Activation::kNone};
    if (epilogue.activation == Activation::kRelu) made.low = 0;
    if (epilogue.activation == Activation::kClamp) {
      made.low = epilogue.a;
      made.high = epilogue.b;
    }
    if (epilogue.activation == Activation::kSilu || epilogue.activation == Activation::kHardswish) {
      made.curve = epilogue.activation;
    }
    return made;
  }
};

}  // namespace oort::cuda
