// SPDX-License-Identifier: MIT
// Shapes of convolutions over one to three spatial axes, always handled as three.
#pragma once

#include <array>
#include <string>

#include "oort/layer.h"

namespace oort {

/// One spatial axis: output i reads inputs i * stride - pad + j * dilation, 0 <= j < kernel.
struct ConvAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1;
  int64_t pad = 0, pad_after = 0;
  /// Inputs from the first to the last that a window touches.
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
};

struct ConvGeometry {
  std::array<ConvAxis, 3> axes;  ///< outermost first; those that are not there have extent 1
  int64_t batch = 1, groups = 1, in_channels = 0, out_channels = 0;
  Shape output;

  int64_t in_plane() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_plane() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  double multiplications() const;
  /// Whether each output reads the input at its own place, and no other.
  bool IsEachPixel() const;
};

/// The parameters that convolutions share.
class ConvParams {
 public:
  ConvParams(const LayerInit& init, int spatial_rank, bool transposed);
  /// Of a convolution over two axes whose parameters have other names.
  ConvParams(std::array<int64_t, 2> stride, std::array<int64_t, 2> pad,
             std::array<int64_t, 2> dilation, int64_t groups);

  /// Throws unless input and weight fit each other and the parameters.
  ConvGeometry Geometry(const Shape& input, const Shape& weight) const;
  /// Throws unless a weight of this shape can be split into the groups.
  void CheckWeight(const Shape& weight) const;
  /// The same for a weight that is known at load, held against what the operator says of it.
  void CheckWeight(const LayerInit& init, const Shape& weight) const;
  int64_t groups() const { return groups_; }
  /// Of a spatial axis.
  int64_t stride(int axis) const { return stride_[static_cast<size_t>(axis)]; }
  int64_t dilation(int axis) const { return dilation_[static_cast<size_t>(axis)]; }

 private:
  void ReadPadding(const LayerInit& init);
  void CheckNumbers() const;
  ConvAxis Axis(int axis, int64_t in, int64_t kernel) const;
  ConvAxis TransposedAxis(int axis, int64_t in, int64_t kernel) const;

  int rank_;
  bool transposed_, same_ = false;
  int64_t groups_;
  std::array<int64_t, 3> stride_{1, 1, 1}, dilation_{1, 1, 1}, extra_{0, 0, 0};
  std::array<int64_t, 3> pad_{0, 0, 0}, pad_after_{0, 0, 0};
};

/// {"nn.Conv2d", "F.conv2d"}-like names and the parameters of both forms, declared alike.
OperatorSchema ConvModuleSchema(int spatial_rank, bool transposed);
OperatorSchema ConvFunctionSchema(int spatial_rank, bool transposed);

}  // namespace oort
