// SPDX-License-Identifier: MIT
// Rewrites of a graph. Each pass is a file of its own with a test of before and after.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oort/layer.h"

namespace oort {

/// Runs one operator on constant inputs; nothing if it cannot or should not be done at load.
using Evaluator = std::function<std::optional<std::vector<Value>>(const Operator& op,
                                                                  std::span<const Value> inputs)>;

struct PassContext {
  Evaluator evaluate;
  /// Who declares the operators of the graph; null: LayerRegistry::Global(), and no operator is
  /// decomposed.
  const LayerRegistry* registry = nullptr;
  /// Whether the device that the graph is for runs operators of this type; without it all do. A
  /// pass makes no operator that would send a part of the graph back to the CPU.
  std::function<bool(std::string_view type)> has_layer = {};
  /// What networks compute in between their operators; kNull: as the file says.
  DType narrow = DType::kNull;

  /// What an operator would give for inputs of which only constants have elements; nothing if it
  /// refuses them.
  Evaluator infer = {};

  /// Whether the graph is for a GPU: there every operator costs a launch, and small ones go into
  /// their neighbours where on the CPU they would gain nothing.
  bool on_gpu = false;

  bool HasLayer(std::string_view type) const { return !has_layer || has_layer(type); }
  /// The declaration of an operator type; null for ports of the graph and for unknown types.
  const OperatorSchema* Schema(std::string_view type) const;
  /// Whether the operator's declaration states the trait, and its condition holds.
  bool Has(Trait trait, const Operator& op) const;
};

struct Pass {
  std::string_view name;
  void (*run)(Graph& graph, const PassContext& context);
};

/// All passes in the order in which they run.
std::span<const Pass> Passes();

/// Removes tuples: outputs that are tuples become several outputs, and unpacking what was just
/// packed becomes nothing.
void FlattenTuples(Graph& graph, const PassContext& context);
/// Removes operators whose results reach no output. Inputs of the model stay.
void RemoveDeadCode(Graph& graph, const PassContext& context);
/// Replaces operators whose inputs are all constant by pnnx.Attribute.
void FoldConstants(Graph& graph, const PassContext& context);
/// Makes oort.Quantize, oort.Dequantize and float operators of what torch quantized.
void TorchQuantized(Graph& graph, const PassContext& context);
/// Makes operators on bytes of those between oort.Dequantize and oort.Quantize.
void IntegerRegions(Graph& graph, const PassContext& context);
/// Makes oort.DynamicLinear of F.linear between oort.DynamicQuantize and weights of bytes.
void DynamicLinear(Graph& graph, const PassContext& context);
/// Puts the parts of operators that are made of others into their places, where constants tell
/// which parts these are.
void DecomposeOperators(Graph& graph, const PassContext& context);
/// nn.MultiheadAttention to its own input becomes products and oort.JointAttention, on a GPU.
void ExpandMultihead(Graph& graph, const PassContext& context);
/// torch.as_strided counts in the memory of its input, which in torch may be that of an operand
/// before transpositions; gives it that operand.
void ReadStorage(Graph& graph, const PassContext& context);
/// Folds nn.BatchNormNd into the weights of the nn.ConvNd, nn.ConvTransposeNd or nn.Linear before
/// it.
void FuseConvBatchNorm(Graph& graph, const PassContext& context);
/// Folds constants that multiply or move the result of nn.ConvNd, nn.ConvTransposeNd or nn.Linear
/// into its weights.
void FoldScale(Graph& graph, const PassContext& context);
/// Keeps images in NHWC between convolutions.
void Nhwc(Graph& graph, const PassContext& context);
/// Pictures become bytes, move their channels and get a fourth one in one operator, on a GPU.
void PackBytes(Graph& graph, const PassContext& context);
/// Folds a sum with another image and an activation into the convolution before them.
void FuseConvEpilogue(Graph& graph, const PassContext& context);
/// Folds the factors of squeeze-and-excite into the 1x1 convolution behind them.
void FoldSqueezeExcite(Graph& graph, const PassContext& context);
/// Makes one operator of joining two images by their channels and shuffling these.
void InterleaveChannels(Graph& graph, const PassContext& context);
/// Those who read pieces of an image cut by its channels read parts of the whole.
void SplitWithoutCopies(Graph& graph, const PassContext& context);
/// Convolutions whose results are joined by their channels write into the joined image.
void CatWithoutCopies(Graph& graph, const PassContext& context);
/// Operators that do the same to the same operands become one.
void MergeCommon(Graph& graph, const PassContext& context);
/// Permutations of permutations become one, or none.
void MergePermutations(Graph& graph, const PassContext& context);
/// Folds zeros padded around an image into the padding of the nn.ConvNd behind them.
void FusePadConv(Graph& graph, const PassContext& context);
/// Makes activations of formulas that spell them out.
void MatchActivations(Graph& graph, const PassContext& context);
/// Makes F.layer_norm of formulas that spell one out over the last axis.
void MatchLayerNorm(Graph& graph, const PassContext& context);
/// Makes nn.Linear of other products with a constant matrix.
void MatchLinear(Graph& graph, const PassContext& context);
/// Element by element operators of one use go into the formula of what reads them.
void FuseExpressions(Graph& graph, const PassContext& context);
/// Makes oort.Attention of softmax(q k^T * scale + mask) v where it is spelled out.
void MatchAttention(Graph& graph, const PassContext& context);
/// Folds the transpositions that bring heads forward and back into the attention between them.
void FoldHeads(Graph& graph, const PassContext& context);
/// Between the operators of a network floats have the 16 bits of PassContext::narrow.
void NarrowFloats(Graph& graph, const PassContext& context);
/// Makes one oort.MergedLinear of several nn.Linear of the same operand.
void MergeLinear(Graph& graph, const PassContext& context);
/// Folds activations and sums behind nn.Linear into it, which becomes oort.Linear.
void FuseLinear(Graph& graph, const PassContext& context);
/// Folds nn.RMSNorm into the oort.QuantizedLinear behind it, on a GPU.
void FuseRmsNorm(Graph& graph, const PassContext& context);
/// Folds oort.Rotary into the oort.PagedAttention behind it, on a GPU.
void FuseRotary(Graph& graph, const PassContext& context);

}  // namespace oort
