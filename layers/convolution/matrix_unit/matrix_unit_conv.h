// SPDX-License-Identifier: MIT
// Convolutions on units that read windows where they lie: of the image itself, or of a copy with a
// border of zeros around it. Nothing is gathered.
#pragma once

#include "cpu/gemm.h"
#include "cpu/tiles_f16.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/convolution/conv_images.h"

namespace oort {

/// The kernels for images of T: of floats, which are rounded to bf16, or of f16.
template <typename T>
struct UnitKernelsOf;
template <>
struct UnitKernelsOf<float> {
  using Kernels = GemmKernels;
  using Tile = GemmWindowTile;
  using Rows = GemmWindowHalf;
};
template <>
struct UnitKernelsOf<Half> {
  using Kernels = TileKernelsF16;
  using Tile = TileF16;
  using Rows = TileRowsF16;
};

/// Thread contract: const methods run concurrently.
template <typename T>
class MatrixUnitConvOf {
 public:
  using Kernels = typename UnitKernelsOf<T>::Kernels;

  /// Whether the kernels can do it: without groups; of floats with more than one tap.
  static bool Fits(const Kernels& kernels, const Shape& weight, int64_t groups);

  /// `weight` is torch's: (out, in, height, width) in f32; `bias` (out), or undefined.
  MatrixUnitConvOf(const Kernels& kernels, const Tensor& weight, const Tensor& bias);

  /// Whether Run may refuse.
  bool may_refuse() const { return runs_; }
  size_t Workspace(const ConvGeometry& geometry, int64_t in_pixel) const;

  using Operands = ConvImagesOf<T>;
  /// Whether it was done. Where the channels are no whole steps of the unit, rows of windows are
  /// filled up with their neighbours, times zero: then it is not done if some of these are not
  /// finite, or if rows have gaps.
  bool Run(const Context& context, const ConvGeometry& geometry, const Operands& operands) const;

 private:
  struct Plan;
  class Job;
  Plan MakePlan(const ConvGeometry& geometry, int64_t in_pixel) const;
  void Pack(const Tensor& weight);

  const Kernels& kernels_;
  int64_t columns_, channels_, height_, width_;
  bool runs_;          // rows of windows are runs of steps, else pixels are
  int64_t step_;       // factors of a step
  int64_t run_steps_;  // of a run
  int64_t steps_;      // of a window
  std::shared_ptr<Buffer> panels_;
  Tensor bias_;  // in f32, of all columns of all panels
};
using MatrixUnitConv = MatrixUnitConvOf<float>;

}  // namespace oort
