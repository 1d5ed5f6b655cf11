// SPDX-License-Identifier: MIT
#include "graph/passes/fold_affine.h"

#include "graph/passes/rewrite.h"

namespace oort {
namespace {

bool IsTransposed(const Operator& conv) { return conv.type.starts_with("nn.ConvTranspose"); }

/// How the weight names its output channels: (out,…), or (in,out/groups,…) where it is transposed.
struct WeightAxes {
  int64_t channels = 0;
  int64_t row = 1;           // elements of one channel side by side
  int64_t per_group = 0;     // transposed: channels of a group
  int64_t group_inputs = 0;  // transposed: inputs of a group

  int64_t ChannelOf(int64_t element) const {
    if (per_group == 0) return element / row;
    const int64_t input = element / (per_group * row);
    return input / group_inputs * per_group + element / row % per_group;
  }
};

/// Without channels where the weight is not what it should be.
WeightAxes ReadAxes(const Operator& conv, const Tensor& weight) {
  const int least = conv.type == "nn.Linear" ? 2 : 3;
  if (weight.rank() < least || weight.elements() == 0) return {};
  if (conv.type == "nn.Linear" && weight.rank() != 2) return {};
  if (!IsTransposed(conv)) return {weight.dim(0), weight.elements() / weight.dim(0)};
  const Value groups = ParameterValue(conv, "groups");
  const int64_t count = groups.IsInt() ? groups.AsInt() : 1;
  if (count < 1 || weight.dim(0) % count != 0) return {};
  return {weight.dim(1) * count, weight.elements() / weight.dim(0) / weight.dim(1), weight.dim(1),
          weight.dim(0) / count};
}

}  // namespace

int64_t FoldableChannels(const Operator& op) {
  const bool known = op.type == "nn.Linear" || op.type.starts_with("nn.Conv");
  const Tensor *weight = FindAttribute(op, "weight"), *bias = FindAttribute(op, "bias");
  if (!known || weight == nullptr || !weight->has_data() || !IsFloat(weight->dtype())) return 0;
  if (bias != nullptr && !IsFloat(bias->dtype())) return 0;
  const int64_t channels = ReadAxes(op, *weight).channels;
  return bias != nullptr && bias->elements() != channels ? 0 : channels;
}

void FoldAffine(Operator& op, const OutputAffine& affine) {
  const Tensor *weight = FindAttribute(op, "weight"), *bias = FindAttribute(op, "bias");
  const WeightAxes axes = ReadAxes(op, *weight);
  const int64_t channels = axes.channels;
  // Of 16 bits the product would lose digits; in f64 it must not.
  const DType dtype = weight->dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor new_weight = weight->To(DType::kF64).Clone();
  Tensor new_bias = bias != nullptr ? bias->To(DType::kF64).Clone().Reshaped({channels})
                                    : Tensor::Zeros(DType::kF64, {channels});
  double* values = new_weight.data<double>();
  for (int64_t i = 0; i < new_weight.elements(); ++i) {
    values[i] *= affine.scale[static_cast<size_t>(axes.ChannelOf(i))];
  }
  for (int64_t c = 0; c < channels; ++c) {
    double& shift = new_bias.data<double>()[c];
    shift = shift * affine.scale[static_cast<size_t>(c)] + affine.shift[static_cast<size_t>(c)];
  }
  op.attributes["weight"] = new_weight.To(dtype);
  op.attributes["bias"] = new_bias.To(dtype);
  op.params["bias"] = Parameter("True");
}

}  // namespace oort
