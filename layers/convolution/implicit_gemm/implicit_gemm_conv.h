// SPDX-License-Identifier: MIT
// Convolutions of images (…, H, W, C) as a product of windows, which are gathered panel by panel on
// their way to it, and packed filters.
#pragma once

#include <vector>

#include "cpu/gemm.h"
#include "cpu/interleave.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/convolution/conv_images.h"

namespace oort {

/// Thread contract: const methods run concurrently.
class ImplicitGemmConv {
 public:
  /// `weight` is torch's: (out, in / groups, height, width) in f32; `bias` (out), or undefined.
  ImplicitGemmConv(Isa isa, const GemmKernels& gemm, const Tensor& weight, const Tensor& bias,
                   int64_t groups);

  /// Whether the channels of the input can be multiplied while they are packed.
  bool TakesScale(const ConvGeometry& geometry) const;
  size_t Workspace(const ConvGeometry& geometry, int threads) const;
  void Run(const Context& context, const ConvGeometry& geometry,
           const ConvOperandsOf<float>& operands) const;

 private:
  static GemmSize SizeOf(const ConvGeometry& geometry);

  const GemmKernels& gemm_;
  const InterleaveKernels& interleave_;
  Tensor zeros_;                      // what lies outside the image
  std::vector<PackedMatrix> packed_;  // one a group
  Tensor bias_;
};

}  // namespace oort
