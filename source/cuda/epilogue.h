// SPDX-License-Identifier: MIT
#pragma once

namespace oort::cuda {

/// In the order of oort::Activation.
enum class Activation : unsigned char {
  kNone,
  kRelu,
  kClamp,
  kSilu,
  kHardswish,
  kHardsigmoid,
  kSigmoid,
  kTanh,
  kGelu,
  kGeluTanh,
  kLeakyRelu,
  kElu,
  kMish,
};

/// What becomes of a sum before it is written: activation(sum + bias + addend).
struct Epilogue {
  const float* bias = nullptr;   ///< one a column, may be null
  const void* addend = nullptr;  ///< of the shape and the dtype of the output; may be null
  Activation activation = Activation::kNone;
  float a = 0, b = 0;  ///< of the activation
};

}  // namespace oort::cuda
