// SPDX-License-Identifier: MIT
#include "layers/convolution/nhwc/conv_shape.h"

#include "core/checked.h"

namespace oort {
namespace {

ChannelPart PartOf(const LayerInit& init, const char* first, const char* all, int64_t channels) {
  const ChannelPart part = {init.Int(first), init.Int(all)};
  if (part.whole() || (part.first <= part.all && channels <= part.all - part.first)) return part;
  throw Error(ErrorCode::kInvalidModel, "expected " + std::to_string(channels) + " channels from " +
                                            first + "=" + std::to_string(part.first) + " on in " +
                                            all + "=" + std::to_string(part.all));
}

}  // namespace

NhwcConvShape::NhwcConvShape(const LayerInit& init)
    : params_(init, 2, false),
      input_(init.Arg("input")),
      weight_(init.Arg("@weight")),
      into_(init.Arg("into")),
      scale_(init.Arg("scale")),
      rank_(init.Int("rank")),
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
  from_ = PartOf(init, "from", "of", CheckedMultiply(weight_shape_[1], params_.groups()));
  to_ = PartOf(init, "to", "width", weight_shape_[0]);
}

Tensor NhwcConvShape::WeightOf(const LayerInit& init) {
  Tensor weight = ReadWeight<float>(init, "weight");
  if (!weight.defined()) {
    throw Error(ErrorCode::kInvalidModel, "expected a weight that is stored with the operator");
  }
  return weight;
}

ConvGeometry NhwcConvShape::Geometry(const Args& args) const {
  Shape input = ToNchw(args.shape(input_));
  // At another rank than the traced one the channels that were cut or joined are another axis.
  if (rank_ != 0 && input.rank() != rank_) {
    throw Error(ErrorCode::kInvalidArgument, "expected an image of rank " + std::to_string(rank_) +
                                                 ", got " + args.shape(input_).ToString());
  }
  if (!from_.whole() && input.rank() >= 3) {
    int64_t& channels = input[input.rank() - 3];
    if (channels != from_.all) {
      throw Error(ErrorCode::kInvalidArgument, "expected an image of " + std::to_string(from_.all) +
                                                   " channels, got " + std::to_string(channels));
    }
    channels = weight_shape_[1] * params_.groups();
  }
  return params_.Geometry(input, weight_shape_);
}

Shape NhwcConvShape::Output(const Args& args) const {
  const ConvGeometry g = Geometry(args);
  bias_.CheckShape(args, {g.out_channels});
  Shape output = ToNhwc(g.output);
  epilogue_.Check(args, output);
  CheckScale(args, g);
  if (!to_.whole()) {
    if (epilogue_.has_addend(args)) {
      throw Error(ErrorCode::kUnsupported, "expected no addend to a part of an image");
    }
    output[output.rank() - 1] = to_.all;
  }
  if (args.Has(into_) && (to_.whole() || args.shape(into_) != output)) {
    throw Error(ErrorCode::kInvalidArgument, "expected an image 'into' of shape " +
                                                 output.ToString() + ", got " +
                                                 args.shape(into_).ToString());
  }
  return output;
}

void NhwcConvShape::CheckScale(const Args& args, const ConvGeometry& geometry) const {
  if (!args.Has(scale_)) return;
  Shape expected = args.shape(input_);
  const int rank = expected.rank();
  expected[rank - 3] = expected[rank - 2] = 1;
  expected[rank - 1] = geometry.in_channels;
  if (args.shape(scale_) == expected) return;
  throw Error(ErrorCode::kInvalidArgument, "expected a scale of shape " + expected.ToString() +
                                               ", got " + args.shape(scale_).ToString());
}

void NhwcConvShape::RefuseParts(const LayerInit& init) const {
  const bool none = from_.whole() && to_.whole() &&
                    (init.IsConstant("scale") && init.Constant("scale").IsNone()) &&
                    (init.IsConstant("into") && init.Constant("into").IsNone());
  if (!none) throw Error(ErrorCode::kUnsupported, "expected whole images without factors");
}

}  // namespace oort
