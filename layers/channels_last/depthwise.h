// SPDX-License-Identifier: MIT
// Convolution of images (…, H, W, C) in which each channel has one filter of its own.
#pragma once

#include "layers/channels_last/depthwise_kernels.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

/// Of elements T: float, or Half for what computes in f16.
template <typename T>
class DepthwiseConvOf {
 public:
  /// `weight` is torch's: (C, 1, height, width) in f32. It is copied, with the channels behind.
  DepthwiseConvOf(Isa isa, const Tensor& weight);

  /// Whether the convolution is one of these.
  static bool Takes(const ConvGeometry& geometry) {
    return geometry.groups > 1 && geometry.groups == geometry.in_channels &&
           geometry.groups == geometry.out_channels;
  }

  /// Images may be parts of wider ones: pixels are `…_pixel` elements apart, at least the channels.
  struct Operands {
    const T* in = nullptr;
    int64_t in_pixel = 0;
    const T* bias = nullptr;    ///< may be null
    const T* addend = nullptr;  ///< of the shape of the output; may be null, may be `out`
    int64_t addend_pixel = 0;
    ActivationSpec activation;
    T* out = nullptr;
    int64_t out_pixel = 0;
  };
  /// out = activation(convolution + bias + addend). Padding is not stored anywhere.
  void Run(const Context& context, const ConvGeometry& geometry, const Operands& operands) const;

 private:
  int64_t BlockOf(const ConvGeometry& geometry) const;
  void RunRows(const ConvGeometry& geometry, const Operands& operands, int64_t image, int64_t y,
               int64_t channel, int64_t count) const;

  const PixelDepthwiseKernelsOf<T>& kernels_;
  int64_t channels_;
  Tensor weight_;  // (vectors of channels, taps, lanes)
};
using DepthwiseConv = DepthwiseConvOf<float>;

}  // namespace oort
