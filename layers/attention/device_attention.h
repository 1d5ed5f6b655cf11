// SPDX-License-Identifier: MIT
#pragma once

#include "graph/device_limits.h"
#include "layers/attention/attention_core.h"
#include "layers/device_kernel.h"

namespace oort {

/// RunAttention for problems without `weights` and with one mask at most, all on the GPU; heads are
/// kDeviceAttentionWidth wide at most. Scores and sums are f32.
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<float>&) OORT_CUDA_ONLY;
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<Half>&) OORT_CUDA_ONLY;
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<BFloat16>&) OORT_CUDA_ONLY;

}  // namespace oort
