// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "graph/passes/fold_affine.h"
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

OutputAffine ReadBatchNorm(const Operator& norm, int64_t channels) {
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
  OutputAffine affine;
  for (size_t c = 0; c < mean.size(); ++c) {
    const double scale = weight[c] / std::sqrt(variance[c] + eps_value.AsFloat());
    affine.scale.push_back(scale);
    affine.shift.push_back(bias[c] - mean[c] * scale);
  }
  return affine;
}

bool FoldInto(Operator& conv, const Operator& norm) {
  const int64_t channels = FoldableChannels(conv);
  if (channels == 0) return false;
  const OutputAffine affine = ReadBatchNorm(norm, channels);
  if (affine.scale.empty()) return false;
  FoldAffine(conv, affine);
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
    const int index = between.producer;
    Operator& conv = graph.operators[static_cast<size_t>(index)];
    if (!IsPair(conv, norm) || conv.outputs.size() != 1 || conv.inputs.size() != 1) continue;
    // Behind a linear operator of rank 3 the norm works along another axis than the last.
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
    graph.MoveOutputs(static_cast<int>(i), index);
    fused[i] = true;
  }
  graph.Remove(fused);
}

}  // namespace oort
