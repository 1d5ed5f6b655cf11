// SPDX-License-Identifier: MIT
// Squeeze-and-excite multiplies the channels of an image with what was made of their means. Where a
// 1x1 convolution follows it takes the factors in: there are fewer filters than pixels. On a GPU,
// where each operator is a launch, all of it is one operator.
#include <algorithm>
#include <string_view>

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

bool MultipliesTwo(const Operator& op) {
  const std::string text = ParameterText(op, "expr");
  return op.type == "pnnx.Expression" && op.inputs.size() == 2 &&
         (text == "mul(@0,@1)" || text == "mul(@1,@0)");
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
  if (!MultipliesTwo(product)) return;
  int image = product.inputs[0], factors = product.inputs[1];
  if (!IsExcitationOf(rewriter, factors, image)) std::swap(image, factors);
  if (!IsExcitationOf(rewriter, factors, image)) return;
  rewriter.Kill(producer);
  if (conv.input_names.empty()) rewriter.op(index).input_names = {"input"};
  rewriter.ReplaceInput(index, 0, image);
  rewriter.graph().AddInput(index, factors, "scale");
}

/// A 1x1 convolution of one pixel that nobody else reads and that is followed by nothing but one of
/// the activations that the fused operator has.
bool IsSmallProduct(Rewriter& rewriter, int index) {
  if (index < 0) return false;
  const Operator& op = rewriter.op(index);
  static constexpr std::string_view kActivations[] = {"",          "none",        "relu",   "silu",
                                                      "hardswish", "hardsigmoid", "sigmoid"};
  return IsOneByOne(op) && op.inputs.size() == 1 && rewriter.HasOneUse(op.outputs[0]) &&
         IsFloatOrAbsent(FindAttribute(op, "weight")) &&
         IsFloatOrAbsent(FindAttribute(op, "bias")) && op.params.count("precision") == 0 &&
         std::ranges::count(kActivations, ParameterText(op, "activation")) == 1;
}

/// Moves what the fused operator needs of one of the products into it.
void TakeProduct(Operator& fused, const Operator& product, const std::string& name) {
  const Tensor& weight = product.attributes.at("weight");
  fused.attributes[name + "_weight"] = weight.Reshaped({weight.dim(0), weight.dim(1)});
  if (const Tensor* bias = FindAttribute(product, "bias")) fused.attributes[name + "_bias"] = *bias;
  const std::string activation = ParameterText(product, "activation");
  fused.params[name + "_activation"] = Parameter(activation.empty() ? "none" : activation);
}

/// Makes one operator of the product `index` if its inputs are `image` and what was made of it.
bool FuseExcitationOf(Rewriter& rewriter, int index, int image, int factors) {
  const int excite = rewriter.ProducerOf(factors);
  if (!IsSmallProduct(rewriter, excite)) return false;
  const int squeeze = rewriter.ProducerOf(rewriter.op(excite).inputs[0]);
  if (!IsSmallProduct(rewriter, squeeze)) return false;
  const int means = rewriter.op(squeeze).inputs[0], mean = rewriter.ProducerOf(means);
  if (mean < 0 || !rewriter.HasOneUse(means)) return false;
  const Operator& mean_op = rewriter.op(mean);
  if (!IsSqueeze(mean_op) || mean_op.inputs.size() != 1 || mean_op.inputs[0] != image ||
      TracedChannels(rewriter.operand(image)) < 0) {
    return false;
  }
  Operator& fused = rewriter.op(index);
  fused.type = "nhwc.SqueezeExcite";
  fused.params.clear();
  TakeProduct(fused, rewriter.op(squeeze), "squeeze");
  TakeProduct(fused, rewriter.op(excite), "excite");
  rewriter.SetInputs(index, {image});
  for (int part : {excite, squeeze, mean}) rewriter.Kill(part);
  return true;
}

void FuseExcitationAt(Rewriter& rewriter, int index) {
  if (rewriter.dead(index) || !MultipliesTwo(rewriter.op(index))) return;
  const int first = rewriter.op(index).inputs[0], second = rewriter.op(index).inputs[1];
  if (!FuseExcitationOf(rewriter, index, first, second)) {
    FuseExcitationOf(rewriter, index, second, first);
  }
}

}  // namespace

void FoldSqueezeExcite(Graph& graph, const PassContext& context) {
  if (context.on_gpu && context.HasLayer("nhwc.SqueezeExcite")) {
    Rewriter rewriter(graph);
    for (int index : graph.TopologicalOrder()) FuseExcitationAt(rewriter, index);
    rewriter.Finish();
  }
  if (!HasParts(context)) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) FoldExcitationAt(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
