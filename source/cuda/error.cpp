// SPDX-License-Identifier: MIT
#include "cuda/error.h"

#include <string>

namespace oort::cuda {

void Check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  throw Error(code, std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace oort::cuda
