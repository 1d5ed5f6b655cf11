// SPDX-License-Identifier: MIT
// Attention in 16 bits on tensor cores. For .cu files.
#pragma once

#include "cuda/stream.h"
#include "layers/attention/attention_core.h"

namespace oort {

/// What AttentionOnDevice computes, if the problem is of the usual kind: heads of at most 128
/// elements, matrices that begin at multiples of 16 bytes and at regular distances. Otherwise it
/// does nothing and returns false. Weights of values are rounded to T.
bool AttentionByTiles(cuda::Stream&, const AttentionProblem<Half>&);
bool AttentionByTiles(cuda::Stream&, const AttentionProblem<BFloat16>&);

}  // namespace oort
