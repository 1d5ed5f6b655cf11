// SPDX-License-Identifier: MIT
#pragma once

#include "core/activation.h"

namespace oort::cuda {

/// What becomes of a sum before it is written: activation(sum + bias + addend).
struct Epilogue {
  const float* bias = nullptr;   ///< one a column, may be null
  const void* addend = nullptr;  ///< of the shape and the dtype of the output; may be null
  Activation activation = Activation::kNone;
  float a = 0, b = 0;  ///< of the activation
};

}  // namespace oort::cuda
