// SPDX-License-Identifier: MIT
// The activations that products and convolutions apply to their results before they write them, on
// every device. A kernel that has only some of them says so by a function `Supports`.
#pragma once

namespace oort {

enum class Activation : unsigned char {
  kNone,
  kRelu,
  kClamp,  ///< to [a, b]
  kSilu,
  kHardswish,
  kHardsigmoid,
  kSigmoid,
  kTanh,
  kGelu,
  kGeluTanh,
  kLeakyRelu,  ///< a: the slope below 0
  kElu,        ///< a: alpha
  kMish,
  kRoughSilu,  ///< kSilu in fewer digits; never in a graph
};

/// An activation with its arguments.
struct ActivationSpec {
  Activation kind = Activation::kNone;
  float a = 0, b = 0;
};

}  // namespace oort
