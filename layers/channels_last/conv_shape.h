// SPDX-License-Identifier: MIT
// What a convolution of (…, H, W, C) knows of its arguments, on every device.
#pragma once

#include "layers/channels_last/axes.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/linear/epilogue.h"
#include "layers/linear/weight_arg.h"

namespace oort {

class ChannelsLastConvShape {
 public:
  explicit ChannelsLastConvShape(const LayerInit& init);

  /// The weight as it stands with the operator, in f32.
  static Tensor WeightOf(const LayerInit& init);

  int input() const { return input_; }
  int weight() const { return weight_; }
  const Shape& weight_shape() const { return weight_shape_; }
  const ConvParams& params() const { return params_; }
  const WeightArg& bias() const { return bias_; }
  const FusedEpilogue& epilogue() const { return epilogue_; }
  void AllowRough() { epilogue_.AllowRough(); }
  bool depthwise() const {
    return params_.groups() > 1 && weight_shape_[1] == 1 && weight_shape_[0] == params_.groups();
  }

  ConvGeometry Geometry(const Args& args) const {
    return params_.Geometry(ToChannelsFirst(args.shape(input_)), weight_shape_);
  }
  /// The shape of the result; throws unless all arguments fit.
  Shape Output(const Args& args) const;

 private:
  ConvParams params_;
  int input_, weight_;
  Shape weight_shape_;
  WeightArg bias_;
  FusedEpilogue epilogue_;
};

}  // namespace oort
