// SPDX-License-Identifier: MIT
#pragma once

#include "layers/attention/attention_core.h"
#include "layers/device_kernel.h"

namespace oort {

/// Widest heads that the kernel takes.
inline constexpr int64_t kDeviceAttentionWidth = 256;

/// RunAttention for problems without `weights` and with one mask at most, all on the GPU. Scores
/// and sums are f32.
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<float>&) OORT_CUDA_ONLY;
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<Half>&) OORT_CUDA_ONLY;
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<BFloat16>&) OORT_CUDA_ONLY;

}  // namespace oort
