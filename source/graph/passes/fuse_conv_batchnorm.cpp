// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "graph/passes/passes.h"

namespace oort {
namespace {

const Tensor* FindAttribute(const Operator& op, const char* name) {
  const auto found = op.attributes.find(name);
  return found == op.attributes.end() ? nullptr : &found->second;
}

/// The digit of "nn.Conv2d" and "nn.BatchNorm2d" must agree.
bool IsPair(const Operator& conv, const Operator& norm) {
  constexpr std::string_view kConv = "nn.Conv", kNorm = "nn.BatchNorm";
  if (conv.type.size() != kConv.size() + 2 || norm.type.size() != kNorm.size() + 2) return false;
  return conv.type.starts_with(kConv) && norm.type.starts_with(kNorm) &&
         conv.type.substr(kConv.size()) == norm.type.substr(kNorm.size());
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
  if (weight == nullptr || weight->rank() < 3 || !weight->has_data()) return false;
  if (!IsFloat(weight->dtype()) || (bias != nullptr && !IsFloat(bias->dtype()))) return false;
  const int64_t channels = weight->dim(0);
  if (channels == 0 || (bias != nullptr && bias->elements() != channels)) return false;
  const Affine affine = ReadBatchNorm(norm, channels);
  if (affine.scale.empty()) return false;

  // Of 16 bits the product would lose digits; in f64 it must not.
  const DType dtype = weight->dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor new_weight = weight->To(DType::kF64).Clone();
  Tensor new_bias = bias != nullptr ? bias->To(DType::kF64).Clone().Reshaped({channels})
                                    : Tensor::Zeros(DType::kF64, {channels});
  const int64_t row = new_weight.elements() / channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = affine.scale[static_cast<size_t>(c)];
    double* values = new_weight.data<double>() + c * row;
    for (int64_t i = 0; i < row; ++i) values[i] *= scale;
    double& shift = new_bias.data<double>()[c];
    shift = shift * scale + affine.shift[static_cast<size_t>(c)];
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
    if (!FoldInto(conv, norm)) continue;
    conv.outputs[0] = norm.outputs[0];
    graph.operands[static_cast<size_t>(conv.outputs[0])].producer = between.producer;
    fused[i] = true;
  }
  graph.Remove(fused);
}

}  // namespace oort
