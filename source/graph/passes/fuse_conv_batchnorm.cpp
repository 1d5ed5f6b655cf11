// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// "nn.Conv2d" or "nn.ConvTranspose2d" and "nn.BatchNorm2d", whose digits must agree.
bool IsPair(const Operator& conv, const Operator& norm) {
  constexpr std::string_view kNorm = "nn.BatchNorm";
  if (norm.type.size() != kNorm.size() + 2 || !norm.type.starts_with(kNorm)) return false;
  const std::string axes = norm.type.substr(kNorm.size());
  if (conv.type == "nn.Linear") return axes == "1d";
  return conv.type == "nn.Conv" + axes || conv.type == "nn.ConvTranspose" + axes;
}

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

/// y = scale * x + shift for each channel; empty if the operator is not what it should be.
struct Affine {
  std::vector<double> scale, shift;
};

/// The attribute as doubles, `fallback` where it is absent; false if it has another length.
bool ReadChannels(const Operator& norm, const char* name, int64_t channels, double fallback,
                  std::vector<double>& values) {
  values.assign(static_cast<size_t>(channels), fallback);
  const Tensor* tensor = FindAttribute(norm, name);
  if (tensor == nullptr) return true;
  if (tensor->elements() != channels || !tensor->has_data()) return false;
  const Tensor wide = tensor->To(DType::kF64);
  std::copy_n(wide.data<double>(), channels, values.begin());
  return true;
}

Affine ReadBatchNorm(const Operator& norm, int64_t channels) {
  std::vector<double> mean, variance, weight, bias;
  if (FindAttribute(norm, "running_mean") == nullptr ||
      FindAttribute(norm, "running_var") == nullptr ||
      !ReadChannels(norm, "running_mean", channels, 0, mean) ||
      !ReadChannels(norm, "running_var", channels, 1, variance) ||
      !ReadChannels(norm, "weight", channels, 1, weight) ||
      !ReadChannels(norm, "bias", channels, 0, bias)) {
    return {};
  }
  const auto eps = norm.params.find("eps");
  const Value eps_value = eps == norm.params.end() ? Value(1e-5) : eps->second.value();
  if (!eps_value.IsFloat() && !eps_value.IsInt()) return {};
  Affine affine;
  for (size_t c = 0; c < mean.size(); ++c) {
    const double scale = weight[c] / std::sqrt(variance[c] + eps_value.AsFloat());
    affine.scale.push_back(scale);
    affine.shift.push_back(bias[c] - mean[c] * scale);
  }
  return affine;
}

bool FoldInto(Operator& conv, const Operator& norm) {
  const Tensor* weight = FindAttribute(conv, "weight");
  const Tensor* bias = FindAttribute(conv, "bias");
  if (weight == nullptr || !weight->has_data()) return false;
  if (!IsFloat(weight->dtype()) || (bias != nullptr && !IsFloat(bias->dtype()))) return false;
  const WeightAxes axes = ReadAxes(conv, *weight);
  const int64_t channels = axes.channels;
  if (channels == 0 || (bias != nullptr && bias->elements() != channels)) return false;
  const Affine affine = ReadBatchNorm(norm, channels);
  if (affine.scale.empty()) return false;

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
  conv.attributes["weight"] = new_weight.To(dtype);
  conv.attributes["bias"] = new_bias.To(dtype);
  conv.params["bias"] = Parameter("True");
  return true;
}

}  // namespace

void FuseConvBatchNorm(Graph& graph, const PassContext&) {
  std::vector<bool> fused(graph.operators.size(), false);
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    Operator& norm = graph.operators[i];
    if (norm.inputs.size() != 1 || norm.outputs.size() != 1) continue;
    const Operand& between = graph.operands[static_cast<size_t>(norm.inputs[0])];
    if (between.producer < 0 || between.consumers.size() != 1) continue;
    Operator& conv = graph.operators[static_cast<size_t>(between.producer)];
    if (!IsPair(conv, norm) || conv.outputs.size() != 1 || conv.inputs.size() != 1) continue;
    // Of rank 3 the norm is over another axis than the last.
    const bool linear = conv.type == "nn.Linear";
    if (linear && (!between.has_shape || between.shape.rank() != 2)) continue;
    if (linear && FindAttribute(conv, "weight") != nullptr &&
        FindAttribute(conv, "weight")->dtype() != DType::kF32) {
      continue;
    }
    if (!FoldInto(conv, norm)) continue;
    if (linear) {
      conv.type = "oort.Linear";
      conv.params.clear();
      conv.params["rank"] = Parameter("2");
      conv.input_names.clear();
    }
    conv.outputs[0] = norm.outputs[0];
    graph.operands[static_cast<size_t>(conv.outputs[0])].producer = between.producer;
    fused[i] = true;
  }
  graph.Remove(fused);
}

}  // namespace oort
