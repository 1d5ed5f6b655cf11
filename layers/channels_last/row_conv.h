// SPDX-License-Identifier: MIT
// Convolutions of images (…, H, W, C) as a product of their pixels, read where they lie, and packed
// filters: nothing of the image is copied, unless it has very few channels.
#pragma once

#include <memory>

#include "layers/channels_last/row_conv_kernels.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

/// Thread contract: const methods run concurrently.
class RowConv {
 public:
  /// `weight` is torch's: (out, in / groups, height, width) in f32; `bias` (out), or undefined.
  RowConv(Isa isa, const Tensor& weight, const Tensor& bias, int64_t groups);

  /// Scratch bytes of one call.
  size_t Workspace(const ConvGeometry& geometry, int threads) const;

  struct Operands {
    const float* in = nullptr;
    const float* addend = nullptr;  ///< of the shape of the output, or null
    ActivationSpec activation;
    float* out = nullptr;
  };
  /// out = activation(convolution + bias + addend).
  void Run(const Context& context, const ConvGeometry& geometry, const Operands& operands) const;

 private:
  struct Plan;
  class Job;
  Plan MakePlan(const ConvGeometry& geometry, int threads) const;
  void Pack(const Tensor& weight, const Tensor& bias);

  const RowConvKernels& kernels_;
  int64_t groups_, columns_, channels_, taps_;  // columns and channels of one group
  int64_t panels_, padded_;                     // of a group: panels, and their columns
  bool copies_;                                 // of windows, as rows of their own
  int64_t tile_taps_, depth_;                   // as the kernels see them
  std::shared_ptr<Buffer> weights_, bias_;      // by group and panel
  Tensor zeros_;                                // what lies outside the image
};

}  // namespace oort
