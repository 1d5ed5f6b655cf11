// SPDX-License-Identifier: MIT
// The instances of few_experts_kernel.cuh by the format of the weights.
#pragma once

#include "layers/experts/cuda/expert_products.h"

namespace oort::cuda::experts {

void LaunchFewPlain(const Stream& stream, const ExpertProduct& product);
void LaunchFewInt8(const Stream& stream, const ExpertProduct& product);
void LaunchFewInt4(const Stream& stream, const ExpertProduct& product);

}  // namespace oort::cuda::experts
