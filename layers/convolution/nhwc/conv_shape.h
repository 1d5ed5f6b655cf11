// SPDX-License-Identifier: MIT
// What a convolution of (…, H, W, C) knows of its arguments, on every device.
#pragma once

#include "layers/convolution/conv_geometry.h"
#include "layers/epilogue.h"
#include "layers/layout/axes.h"
#include "layers/weight_arg.h"

namespace oort {

/// Neighbouring channels of a wider image: `first` of `all`; first < 0 where it is the image.
struct ChannelPart {
  int64_t first = -1, all = 0;
  bool whole() const { return first < 0; }
  int64_t offset() const { return whole() ? 0 : first; }
};

class NhwcConvShape {
 public:
  explicit NhwcConvShape(const LayerInit& init);

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

  /// Of the part of the input that is read.
  ConvGeometry Geometry(const Args& args) const;
  /// The shape of the result; throws unless all arguments fit.
  Shape Output(const Args& args) const;

  /// What is read of the input, and which part of the output the result is.
  const ChannelPart& from() const { return from_; }
  const ChannelPart& to() const { return to_; }
  /// The image that holds the other parts of the output already, or null.
  const Tensor* into(const Args& args) const {
    return args.Has(into_) ? &args.tensor(into_) : nullptr;
  }
  int into_argument() const { return into_; }
  /// What each channel of each image of the input is multiplied with first, or null.
  template <typename T>
  const T* scale(const Args& args) const {
    return args.Has(scale_) ? args.tensor(scale_).data<T>() : nullptr;
  }
  bool scaled(const Args& args) const { return args.Has(scale_); }
  /// Throws kUnsupported where there are parts or factors: for devices that have none of that.
  void RefuseParts(const LayerInit& init) const;

 private:
  void CheckScale(const Args& args, const ConvGeometry& geometry) const;

  ConvParams params_;
  int input_, weight_, into_, scale_;
  int64_t rank_;  // that the input must have; 0 for any
  Shape weight_shape_;
  WeightArg bias_;
  FusedEpilogue epilogue_;
  ChannelPart from_, to_;
};

}  // namespace oort
