// SPDX-License-Identifier: MIT
#include "quantize/row_layers.h"

#include <algorithm>

#include "graph/passes/rewrite.h"
#include "layers/quantize/integer_numbers.h"

namespace oort::quantize {
namespace {

struct RowLayer {
  const char* type;
  const char* dynamic_type;
};
constexpr RowLayer kRowLayers[] = {{"nn.LSTM", "oort.DynamicLSTM"},
                                   {"nn.GRU", "oort.DynamicGRU"},
                                   {"nn.RNN", "oort.DynamicRNN"},
                                   {"nn.MultiheadAttention", "oort.DynamicMultiheadAttention"}};

/// Weights of a step. From so many on, bytes were as fast as f32 on AVX-512 VNNI (bench_dynamic).
constexpr int64_t kSmallStep = 16384;

bool IsMatrix(const Operator& op, const std::string& name) {
  if (op.type != "nn.MultiheadAttention") return name.starts_with("weight_");
  return name == "in_proj_weight" || name == "out_proj.weight" || name.ends_with("_proj_weight");
}

/// Whether an attention has all its weights itself: they can also be operands.
bool HasProjections(const Operator& op) {
  const auto has = [&](const char* name) { return op.attributes.count(name) > 0; };
  return has("out_proj.weight") &&
         (has("in_proj_weight") ||
          (has("q_proj_weight") && has("k_proj_weight") && has("v_proj_weight")));
}

}  // namespace

const char* DynamicTypeOf(const Operator& op) {
  for (const RowLayer& layer : kRowLayers) {
    if (op.type == layer.type) return layer.dynamic_type;
  }
  return nullptr;
}

std::vector<std::string> MatricesOf(const Operator& op) {
  std::vector<std::string> names;
  if (DynamicTypeOf(op) == nullptr) return names;
  for (const auto& [name, tensor] : op.attributes) {
    if (IsMatrix(op, name)) names.push_back(name);
  }
  return names;
}

std::string RowObstacle(const Graph& graph, const Operator& op) {
  const std::vector<std::string> matrices = MatricesOf(op);
  if (matrices.empty() || (op.type == "nn.MultiheadAttention" && !HasProjections(op))) {
    return "its weights are shared";
  }
  for (const auto& [name, tensor] : op.attributes) {
    if (!IsFloatOrAbsent(&tensor)) return "its weights are not f32";
  }
  for (const std::string& name : matrices) {
    const Tensor& matrix = op.attributes.at(name);
    if (matrix.rank() != 2 || matrix.elements() == 0) return "its weights are no matrices";
    if (matrix.dim(1) > kMostIntegerTerms) return "sums of its rows do not fit into 32 bits";
  }
  const bool floats = std::all_of(op.inputs.begin(), op.inputs.end(), [&](int input) {
    const DType dtype = graph.operands[static_cast<size_t>(input)].dtype;
    return dtype == DType::kF32 || dtype == DType::kNull || dtype == DType::kBool;
  });
  return floats ? "" : "its input is not f32";
}

bool HasSmallSteps(const Operator& op) {
  const Tensor* weight = FindAttribute(op, "weight_hh_l0");
  return weight != nullptr && weight->elements() < kSmallStep;
}

}  // namespace oort::quantize
