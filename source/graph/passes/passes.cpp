// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"

namespace oort {

std::span<const Pass> Passes() {
  // Dead code goes first, so that nothing is folded in vain, and last, to sweep up.
<<<<<<< HEAD
  static constexpr std::array<Pass, 8> kPasses = {{{"flatten-tuples", FlattenTuples},
                                                   {"read-storage", ReadStorage},
                                                   {"dead-code", RemoveDeadCode},
                                                   {"fold-constants", FoldConstants},
                                                   {"fuse-conv-batchnorm", FuseConvBatchNorm},
                                                   {"channels-last", ChannelsLast},
                                                   {"fuse-conv-epilogue", FuseConvEpilogue},
                                                   {"dead-code", RemoveDeadCode}}};
=======
  static constexpr Pass kPasses[] = {
      {"flatten-tuples", FlattenTuples},
      {"read-storage", ReadStorage},
      {"dead-code", RemoveDeadCode},
      {"fold-constants", FoldConstants},
      {"fuse-conv-batchnorm", FuseConvBatchNorm},
      {"fuse-linear", FuseLinear},
      {"dead-code", RemoveDeadCode},
  };
>>>>>>> ef0f9dc (Fold activations and residuals behind nn.Linear into it)
  return kPasses;
}

}  // namespace oort
