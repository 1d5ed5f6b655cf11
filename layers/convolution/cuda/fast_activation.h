// SPDX-License-Identifier: MIT
// The activations that are cheap enough to stand in an unrolled loop.
#pragma once

#include <limits>

#include "cuda/epilogue.h"

namespace oort::cuda {

struct FastActivation {
  enum Curve : unsigned char { kLine, kSilu, kHardswish };
  float low, high;  // what the curve is limited to
  Curve curve;

  static bool Has(Activation kind) {
    return kind == Activation::kNone || kind == Activation::kRelu || kind == Activation::kClamp ||
           kind == Activation::kSilu || kind == Activation::kHardswish;
  }

  static FastActivation Of(const Epilogue& epilogue) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    FastActivation made = {-kInfinity, kInfinity, kLine};
    if (epilogue.activation == Activation::kRelu) made.low = 0;
    if (epilogue.activation == Activation::kClamp) made = {epilogue.a, epilogue.b, kLine};
    if (epilogue.activation == Activation::kSilu) made.curve = kSilu;
    if (epilogue.activation == Activation::kHardswish) made.curve = kHardswish;
    return made;
  }
};

}  // namespace oort::cuda
