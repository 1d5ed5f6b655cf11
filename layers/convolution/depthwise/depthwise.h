// SPDX-License-Identifier: MIT
// Convolution of images (…, H, W, C) in which each channel has one filter of its own.
#pragma once

#include "layers/convolution/conv_geometry.h"
#include "layers/convolution/conv_images.h"
#include "layers/convolution/depthwise/depthwise_kernels.h"

namespace oort {

/// Of elements T: float, or Half for what computes in f16.
template <typename T>
class DepthwiseConvOf {
 public:
  /// `weight` is torch's: (C, 1, height, width) in f32. It is copied, in NHWC.
  DepthwiseConvOf(Isa isa, const Tensor& weight);

  struct Operands : ConvImagesOf<T> {
    const T* bias = nullptr;  ///< may be null
  };
  /// Padding is not stored anywhere.
  void Run(const Context& context, const ConvGeometry& geometry, const Operands& operands) const;

 private:
  int64_t BlockOf(const ConvGeometry& geometry) const;
  void RunRows(const ConvGeometry& geometry, const Operands& operands, int64_t image, int64_t y,
               int64_t channel, int64_t count) const;

  const NhwcDepthwiseKernelsOf<T>& kernels_;
  int64_t channels_;
  Tensor weight_;  // (vectors of channels, taps, lanes)
};
using DepthwiseConv = DepthwiseConvOf<float>;

}  // namespace oort
