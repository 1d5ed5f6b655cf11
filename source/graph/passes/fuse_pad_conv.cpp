// SPDX-License-Identifier: MIT
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/zero_padding.h"

namespace oort {
namespace {

/// 2 for "nn.Conv2d", 0 for what is no convolution.
int SpatialAxes(const std::string& type) {
  if (type == "nn.Conv1d") return 1;
  if (type == "nn.Conv2d") return 2;
  return type == "nn.Conv3d" ? 3 : 0;
}

/// Non-negative integers of a list, or one for all `count`; empty for anything else.
std::vector<int64_t> Extents(const Value& value, size_t count) {
  if (!value.IsInt() && !value.IsList()) return {};
  std::vector<int64_t> extents;
  for (const Value& item : value.IsList() ? value.AsList() : Value::List{value}) {
    constexpr int64_t kLarge = int64_t{1} << 30;  // leaves nonsense to be refused by the layers
    if (!item.IsInt() || item.AsInt() < 0 || item.AsInt() > kLarge) return {};
    extents.push_back(item.AsInt());
  }
  if (value.IsInt()) extents.resize(count, extents[0]);
  return extents;
}

/// How far zeros are put around each of the last axes on both sides, first axis first; empty for
/// operators that do something else.
std::vector<int64_t> ZeroPadding(const Operator& op, int axes) {
  if (!PadsZeros(op)) return {};
  const bool function = op.type == "F.pad";
  // A module of another dimension takes other ranks than the convolution.
  if (!function && !op.type.ends_with(std::to_string(axes) + "d")) return {};
  const std::vector<int64_t> pairs =
      Extents(ParameterValue(op, function ? "pad" : "padding"), 2 * static_cast<size_t>(axes));
  if (pairs.empty() || pairs.size() % 2 != 0 || pairs.size() > 2 * static_cast<size_t>(axes))
    return {};
  std::vector<int64_t> padding(static_cast<size_t>(axes), 0);
  for (size_t i = 0; i < pairs.size() / 2; ++i) {  // the last axis comes first
    if (pairs[2 * i] != pairs[2 * i + 1]) return {};
    padding[static_cast<size_t>(axes) - 1 - i] = pairs[2 * i];
  }
  return padding;
}

void FusePadAt(Rewriter& rewriter, int index) {
  const int axes = SpatialAxes(rewriter.op(index).type);
  if (axes == 0 || rewriter.op(index).inputs.size() != 1) return;
  const int between = rewriter.op(index).inputs[0], pad = rewriter.ProducerOf(between);
  if (pad < 0 || !rewriter.HasOneUse(between)) return;
  const std::vector<int64_t> padding = ZeroPadding(rewriter.op(pad), axes);
  if (padding.empty()) return;
  Operator& conv = rewriter.op(index);
  const std::string mode = ParameterText(conv, "padding_mode");
  if (!mode.empty() && mode != "zeros") return;
  const Value own = ParameterValue(conv, "padding");
  std::vector<int64_t> sum(padding.size(), 0);
  if (!own.IsNone()) sum = Extents(own, padding.size());
  if (sum.size() != padding.size()) return;
  std::string text;
  for (size_t i = 0; i < sum.size(); ++i) {
    text += (i == 0 ? "(" : ",") + std::to_string(sum[i] + padding[i]);
  }
  conv.params["padding"] = Parameter(text + ")");
  const int source = rewriter.op(pad).inputs[0];
  rewriter.SetInputs(index, {source});
  rewriter.Kill(pad);
}

}  // namespace

void FusePadConv(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) FusePadAt(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
