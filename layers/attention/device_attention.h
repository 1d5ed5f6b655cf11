// SPDX-License-Identifier: MIT
#pragma once

#include "layers/attention/attention_core.h"
#include "layers/device_kernel.h"

namespace oort {

/// Widest heads that the kernel takes.
inline constexpr int64_t kDeviceAttentionWidth = 256;

/// RunAttention for problems without `weights` and with one mask at most, all on the GPU. T is
/// float, Half or BFloat16; scores and sums are f32.
template <typename T>
void AttentionOnDevice(cuda::Stream&, const AttentionProblem<T>&) OORT_CUDA_ONLY;

}  // namespace oort
