// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"
#include "layers/index/index_plan.h"

namespace oort {

// Indices are i32 or i64. One that is out of range gives zeros: a kernel cannot refuse.

/// output[o, i, :] = x[o, index[i], :] for x seen as (outer, extent, inner) around `axis`.
void SelectOnDevice(cuda::Stream&, const Tensor& x, const Tensor& index, int axis,
                    Tensor& output) OORT_CUDA_ONLY;
/// output[i, j, …] = x[index[i, j, …], j, …] for axis 0, and so on; a scalar is a vector of one.
void GatherOnDevice(cuda::Stream&, const Tensor& x, const Tensor& index, int axis,
                    Tensor& output) OORT_CUDA_ONLY;

/// CopyIndexed with a plan whose table is on the GPU.
void CopyIndexedOnDevice(cuda::Stream&, size_t item, const std::byte* x, const IndexPlan& plan,
                         const int64_t* table, std::byte* result) OORT_CUDA_ONLY;

}  // namespace oort
