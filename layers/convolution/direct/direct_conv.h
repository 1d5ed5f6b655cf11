// SPDX-License-Identifier: MIT
// Convolutions of images (…, H, W, C) as a product of their pixels, read where they lie, and packed
// filters. Of images with very few channels a row of a window is what a tap is elsewhere: only
// where it reaches over the border it is copied.
#pragma once

#include <memory>

#include "layers/convolution/conv_geometry.h"
#include "layers/convolution/conv_images.h"
#include "layers/convolution/direct/direct_conv_kernels.h"

namespace oort {

/// Of elements T: float, or Half for what computes in f16.
/// Thread contract: const methods run concurrently.
template <typename T>
class DirectConvOf {
 public:
  /// `weight` is torch's: (out, in / groups, height, width) in f32; `bias` (out), or undefined.
  DirectConvOf(Isa isa, const Tensor& weight, const Tensor& bias, int64_t groups);

  /// Whether multiplying the channels of the input is best left to the filters.
  bool TakesScale(const ConvGeometry& geometry) const {
    return std::is_same_v<T, float> && taps_ == 1 && groups_ == 1 &&
           geometry.out_plane() >= columns_;
  }
  /// Scratch bytes of one call; with a scale they are more.
  size_t Workspace(const ConvGeometry& geometry, int threads, bool scaled = false) const;

  /// With a scale only if TakesScale.
  using Operands = ConvOperandsOf<T>;
  void Run(const Context& context, const ConvGeometry& geometry, const Operands& operands) const;

 private:
  struct Plan;
  class Job;
  Plan MakePlan(const ConvGeometry& geometry, int threads) const;
  void Pack(const Tensor& weight, const Tensor& bias);
  void RunScaled(const Context& context, const ConvGeometry& geometry,
                 const Operands& operands) const;
  int64_t WeightElements() const { return groups_ * padded_ * tile_taps_ * depth_; }

  const DirectConvKernelsOf<T>& kernels_;
  int64_t groups_, columns_, channels_, taps_;  // columns and channels of one group
  int64_t panels_, padded_;                     // of a group: panels, and their columns
  bool runs_;                                   // the pixels of a window's row are one tap
  int64_t tile_taps_, depth_;                   // as the kernels see them
  std::shared_ptr<Buffer> weights_, bias_;      // by group and panel
  Tensor zeros_;                                // what lies outside the image
};
using DirectConv = DirectConvOf<float>;

}  // namespace oort
