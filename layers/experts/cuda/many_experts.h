// SPDX-License-Identifier: MIT
// The instances of many_experts_kernel.cuh by the format of the weights.
#pragma once

#include "layers/experts/cuda/expert_products.h"

namespace oort::cuda::experts {

/// What a block needs of shared memory.
int64_t ManySharedBytes(const ExpertProduct& product);

void LaunchManyPlain(const Stream& stream, const ExpertProduct& product);
void LaunchManyInt8(const Stream& stream, const ExpertProduct& product);
void LaunchManyInt4(const Stream& stream, const ExpertProduct& product);

}  // namespace oort::cuda::experts
