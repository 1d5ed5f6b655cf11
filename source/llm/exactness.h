// SPDX-License-Identifier: MIT
// What LanguageModelOptions::exact is where nobody asked.
#pragma once

#include "oort/device.h"

namespace oort {

/// Whether activations stay f32, with a cache of f32, for so many bytes of weights: on a GPU a
/// small model waits for kernels to start more than for their products.
constexpr bool IsExactByDefault(DeviceType device, double weight_bytes) {
  return device == DeviceType::kCuda && weight_bytes < 512e6;
}

}  // namespace oort
