// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "oort/error.h"

namespace oort::cuda {

/// Throws an Error ("what: what CUDA says") unless it is success: kOutOfMemory where memory was
/// refused, kDevice otherwise. The error is cleared, so that the next call starts clean; after some
/// (an address out of range in a kernel) CUDA refuses every call of the process all the same.
void Check(cudaError_t error, std::string_view what);

}  // namespace oort::cuda
