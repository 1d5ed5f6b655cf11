// SPDX-License-Identifier: MIT
// Squeeze-and-excite multiplies the channels of an image with what was made of their means. Where a
// 1x1 convolution follows it takes the factors in: there are fewer filters than pixels.
#include <algorithm>

#include "cpu/activation.h"
#include "graph/passes/channel_parts.h"

namespace oort {
namespace {

constexpr int kLongestExcitation = 8;

bool IsOneByOne(const Operator& op) {
  const Tensor* weight = FindAttribute(op, "weight");
  if (op.type != "nhwc.Conv2d" || weight == nullptr || weight->rank() != 4) return false;
  const std::string padding = ParameterText(op, "padding"), groups = ParameterText(op, "groups");
  const bool bare = padding.empty() || padding == "(0,0)" || padding == "0" || padding == "valid";
  return weight->dim(2) == 1 && weight->dim(3) == 1 && bare && (groups.empty() || groups == "1");
}

/// Whether an operator gives the mean of each channel.
bool IsSqueeze(const Operator& op) {
  if (op.type == "nhwc.AdaptiveAvgPool2d") {
    const std::string size = ParameterText(op, "output_size");
    return size == "(1,1)" || size == "1";
  }
  if (op.type != "nhwc.mean" || ParameterText(op, "keepdim") != "True") return false;
  const std::string dims = ParameterText(op, "dim");
  return dims == "(2,3)" || dims == "(-2,-1)" || dims == "(-1,-2)" || dims == "(3,2)";
}

/// Whether `factors` are made of the means of the channels of `image` by what works on single
/// pixels.
bool IsExcitationOf(Rewriter& rewriter, int factors, int image) {
  for (int steps = 0; steps < kLongestExcitation; ++steps) {
    const int producer = rewriter.ProducerOf(factors);
    if (producer < 0) return false;
    const Operator& op = rewriter.op(producer);
    if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
    if (IsSqueeze(op)) return op.inputs[0] == image;
    if (!IsOneByOne(op) && !ActivationOf(op)) return false;
    factors = op.inputs[0];
  }
  return false;
}

void FoldExcitationAt(Rewriter& rewriter, int index) {
  const Operator& conv = rewriter.op(index);
  const bool plain = conv.params.count("from") == 0 &&
                     std::find(conv.input_names.begin(), conv.input_names.end(), "scale") ==
                         conv.input_names.end();
  if (!IsOneByOne(conv) || !plain) return;
  const int scaled = conv.inputs[0], producer = rewriter.ProducerOf(scaled);
  if (producer < 0 || !rewriter.HasOneUse(scaled) || TracedChannels(rewriter.operand(scaled)) < 0) {
    return;
  }
  const Operator& product = rewriter.op(producer);
  const std::string text = ParameterText(product, "expr");
  if (product.type != "pnnx.Expression" || product.inputs.size() != 2 ||
      (text != "mul(@0,@1)" && text != "mul(@1,@0)")) {
    return;
  }
  int image = product.inputs[0], factors = product.inputs[1];
  if (!IsExcitationOf(rewriter, factors, image)) std::swap(image, factors);
  if (!IsExcitationOf(rewriter, factors, image)) return;
  rewriter.Kill(producer);
  if (conv.input_names.empty()) rewriter.op(index).input_names = {"input"};
  rewriter.ReplaceInput(index, 0, image);
  rewriter.graph().AddInput(index, factors, "scale");
}

}  // namespace

void FoldSqueezeExcite(Graph& graph, const PassContext& context) {
  if (!HasParts(context)) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) FoldExcitationAt(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
