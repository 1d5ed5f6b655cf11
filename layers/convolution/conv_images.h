// SPDX-License-Identifier: MIT
// What every convolution of images (…, H, W, C) reads and writes.
#pragma once

#include "cpu/activation.h"

namespace oort {

/// out = activation(convolution + bias + addend). Images may be parts of wider ones: pixels are
/// `…_pixel` elements apart, at least the channels.
template <typename T>
struct ConvImagesOf {
  const T* in = nullptr;
  int64_t in_pixel = 0;
  const T* addend = nullptr;  ///< of the shape of the output and with its pixels; or null, or `out`
  ActivationSpec activation;
  T* out = nullptr;
  int64_t out_pixel = 0;
};

/// The same for those that know what lies before the image, and may multiply its channels.
template <typename T>
struct ConvOperandsOf : ConvImagesOf<T> {
  int64_t in_first = 0;      ///< elements of the whole image before `in`
  const T* scale = nullptr;  ///< factors of the channels of each image of the batch; or null
};

}  // namespace oort
