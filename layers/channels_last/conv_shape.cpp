// SPDX-License-Identifier: MIT
#include "layers/channels_last/conv_shape.h"

namespace oort {

ChannelsLastConvShape::ChannelsLastConvShape(const LayerInit& init)
    : params_(init, 2, false),
      input_(init.Arg("input")),
      weight_(init.Arg("@weight")),
      weight_shape_(WeightOf(init).shape()),
      bias_(init, "bias"),
      epilogue_(init) {
  CheckBiasFlag(init);
  if (!init.IsConstant("@bias")) {
    throw Error(ErrorCode::kUnsupported, "expected a bias that is stored with the operator");
  }
  params_.CheckWeight(init, weight_shape_);
  const Tensor& bias = bias_.constant();
  if (bias.defined() && bias.shape() != Shape{weight_shape_[0]}) {
    throw Error(ErrorCode::kInvalidArgument, "expected 'bias' of shape " +
                                                 Shape{weight_shape_[0]}.ToString() + ", got " +
                                                 bias.shape().ToString());
  }
}

Tensor ChannelsLastConvShape::WeightOf(const LayerInit& init) {
  Tensor weight = ReadWeight<float>(init, "weight");
  if (!weight.defined()) {
    throw Error(ErrorCode::kInvalidModel, "expected a weight that is stored with the operator");
  }
  return weight;
}

Shape ChannelsLastConvShape::Output(const Args& args) const {
  const ConvGeometry g = Geometry(args);
  bias_.CheckShape(args, {g.out_channels});
  const Shape output = ToChannelsLast(g.output);
  epilogue_.Check(args, output);
  return output;
}

}  // namespace oort
