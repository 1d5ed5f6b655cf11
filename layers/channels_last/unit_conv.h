// SPDX-License-Identifier: MIT
// Convolutions on units that read windows where they lie: the image is rounded once, with a border
// of zeros around it, and nothing is gathered.
#pragma once

#include "cpu/gemm.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

/// Thread contract: const methods run concurrently.
class UnitConv {
 public:
  /// Whether the kernels can do it: without groups and with more than one tap.
  static bool Fits(const GemmKernels& kernels, const Shape& weight, int64_t groups);

  /// `weight` is torch's: (out, in, height, width).
  UnitConv(const GemmKernels& kernels, const Tensor& weight);

  /// Whether Run may refuse.
  bool may_refuse() const { return runs_; }
  size_t Workspace(const ConvGeometry& geometry) const;

  struct Operands {
    const float* in = nullptr;
    int64_t in_pixel = 0;  ///< floats from one pixel to the next
    const float* bias = nullptr;
    const float* addend = nullptr;
    int64_t addend_pixel = 0;
    ActivationSpec activation;
    float* out = nullptr;
    int64_t out_pixel = 0;
  };
  /// Whether it was done. Where the channels are no whole steps of the unit, rows of windows are
  /// filled up with their neighbours, times zero: then it is not done if some of these are not
  /// finite, or if rows have gaps.
  bool Run(const Context& context, const ConvGeometry& geometry, const Operands& operands) const;

 private:
  struct Plan;
  class Job;
  Plan MakePlan(const ConvGeometry& geometry) const;

  const GemmKernels& kernels_;
  int64_t columns_, channels_, height_, width_;
  bool runs_;          // rows of windows are runs of steps, else pixels are
  int64_t run_steps_;  // of a run
  int64_t steps_;      // of a window
  PackedMatrix packed_;
};

}  // namespace oort
