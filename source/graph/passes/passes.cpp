// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"

namespace oort {

std::span<const Pass> Passes() {
  // Dead code goes first, so that nothing is folded in vain, and last, to sweep up.
  static constexpr Pass kPasses[] = {
      {"flatten-tuples", FlattenTuples},
      {"read-storage", ReadStorage},
      {"dead-code", RemoveDeadCode},
      {"fold-constants", FoldConstants},
      {"fuse-conv-batchnorm", FuseConvBatchNorm},
      {"match-attention", MatchAttention},
      {"fold-heads", FoldHeads},
      {"channels-last", ChannelsLast},
      {"fuse-conv-epilogue", FuseConvEpilogue},
      {"fuse-linear", FuseLinear},
      {"dead-code", RemoveDeadCode},
  };
  return kPasses;
}

}  // namespace oort
