// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"

namespace oort {

const OperatorSchema* PassContext::Schema(std::string_view type) const {
  return (registry != nullptr ? *registry : LayerRegistry::Global()).Schema(type);
}

bool PassContext::Has(Trait trait, const Operator& op) const {
  const OperatorSchema* schema = Schema(op.type);
  return schema != nullptr && schema->Has(trait, op);
}

std::span<const Pass> Passes() {
  // Dead code is removed first, so that nothing is folded in vain, and last, because other passes
  // leave some behind; and before passes that ask whether an operand has other readers, since dead
  // ones count. Operators are decomposed before all passes that look for patterns, once constants
  // are there that tell how; constants that this makes are folded afterwards. Weights of bytes are
  // found before they would be folded into numbers.
  static constexpr Pass kPasses[] = {
      {"flatten-tuples", FlattenTuples},
      {"read-storage", ReadStorage},
      {"torch-quantized", TorchQuantized},
      {"dead-code", RemoveDeadCode},
      {"integer-regions", IntegerRegions},
      {"dynamic-linear", DynamicLinear},
      {"dead-code", RemoveDeadCode},
      {"fold-constants", FoldConstants},
      {"decompose", DecomposeOperators},
      {"flatten-tuples", FlattenTuples},
      {"dead-code", RemoveDeadCode},
      {"fold-constants", FoldConstants},
      {"expand-multihead", ExpandMultihead},
      {"merge-common", MergeCommon},
      {"merge-permutations", MergePermutations},
      {"fuse-conv-batchnorm", FuseConvBatchNorm},
      {"fuse-pad-conv", FusePadConv},
      {"match-activations", MatchActivations},
      {"match-layer-norm", MatchLayerNorm},
      {"dead-code", RemoveDeadCode},
      {"match-linear", MatchLinear},
      {"fold-scale", FoldScale},
      {"match-attention", MatchAttention},
      {"fold-heads", FoldHeads},
      {"dead-code", RemoveDeadCode},
      {"nhwc", Nhwc},
      {"pack-bytes", PackBytes},
      {"fuse-conv-epilogue", FuseConvEpilogue},
      {"fold-squeeze-excite", FoldSqueezeExcite},
      {"interleave-channels", InterleaveChannels},
      {"split-without-copies", SplitWithoutCopies},
      {"cat-without-copies", CatWithoutCopies},
      {"merge-linear", MergeLinear},
      {"fuse-linear", FuseLinear},
      {"fuse-rms-norm", FuseRmsNorm},
      {"fuse-rotary", FuseRotary},
      {"fuse-expressions", FuseExpressions},
      {"narrow-floats", NarrowFloats},
      {"dead-code", RemoveDeadCode},
  };
  return kPasses;
}

}  // namespace oort
