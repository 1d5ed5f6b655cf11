// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"

namespace oort {

std::span<const Pass> Passes() {
  // Dead code goes first, so that nothing is folded in vain, and last, to sweep up; and before what
  // asks whether an operand has other readers. Operators are taken apart before all that looks for
  // patterns, and once constants are there that tell how; what that leaves is folded then.
  static constexpr Pass kPasses[] = {
      {"flatten-tuples", FlattenTuples},
      {"read-storage", ReadStorage},
      {"dead-code", RemoveDeadCode},
      {"fold-constants", FoldConstants},
      {"decompose", DecomposeOperators},
      {"flatten-tuples", FlattenTuples},
      {"dead-code", RemoveDeadCode},
      {"fold-constants", FoldConstants},
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
