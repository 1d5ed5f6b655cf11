// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"
#include "layers/reduction/reduce_plan.h"

namespace oort {

enum class Reduction : unsigned char { kSum, kMean, kProduct, kMax, kMin };

/// Reduces real numbers of any dtype as `plan` says. `values` and `indices` (i64, the first
/// position of an extreme) may be null. Integers are added up as such where the values are
/// integers.
void ReduceOnDevice(cuda::Stream&, const ReducePlan& plan, Reduction, const Tensor& x,
                    Tensor* values, Tensor* indices) OORT_CUDA_ONLY;

}  // namespace oort
