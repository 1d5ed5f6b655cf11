// SPDX-License-Identifier: MIT
// The parameters of operators that resize images, and what they make of a shape.
#pragma once

#include <array>
#include <string>

#include "layers/resize/resize_axis.h"
#include "oort/layer.h"

namespace oort {

class ResizeParams {
 public:
  /// Reads size, scale_factor (or ATen's scales_…), mode, align_corners, antialias and
  /// recompute_scale_factor, as far as the schema has them. `mode` overrides the parameter of that
  /// name; the flags add to theirs.
  ResizeParams(const LayerInit& init, const char* mode, bool align_corners, bool antialias);

  /// Throws kInvalidArgument unless `input`, (N, C, spatial…), has a rank that the mode takes and
  /// the arguments give extents above zero.
  ResizeGeometry Geometry(const Shape& input, const Args& args) const;
  bool AlignCorners(const Args& args) const {
    return align_corners_ || (args.Has(align_corners_arg_) && args[align_corners_arg_].AsBool());
  }
  ResizeMode mode() const { return mode_; }
  const std::string& mode_name() const { return mode_name_; }
  bool antialias() const { return antialias_; }
  /// Whether outputs are copies of inputs.
  bool Copies() const {
    return mode_ == ResizeMode::kNearest || mode_ == ResizeMode::kNearestExact;
  }

 private:
  void CheckRank(const Shape& input) const;

  int size_, scale_factor_;
  std::array<int, 3> axis_factors_;  // of the ATen form; -1 where there is none
  std::string mode_name_;
  ResizeMode mode_;
  bool align_corners_;
  int align_corners_arg_;
  bool antialias_;
  bool recompute_ = false;
};

}  // namespace oort
