// SPDX-License-Identifier: MIT
#include "layers/language/device_likeliest.h"

#include "cuda/elements.h"
#include "cuda/float_order.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"

namespace oort {
namespace {

/// Larger for a larger value, and of equal values for the lower index; 0 for what is never picked.
__device__ unsigned long long RankOf(float value, int index) {
  const unsigned order = cuda::OrderOf(value);
  if (order == 0) return 0;
  return static_cast<unsigned long long>(order) << 32 |
         (0xffffffffu - static_cast<unsigned>(index));
}

/// A block a row.
__global__ void LikeliestKernel(const float* x, int count, int32_t* y) {
  __shared__ unsigned long long shared[32];
  cuda::WaitForPredecessor();
  const float* row = x + static_cast<int64_t>(blockIdx.x) * count;
  unsigned long long best = 0;
  const auto larger = [](unsigned long long a, unsigned long long b) { return a > b ? a : b; };
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    best = larger(best, RankOf(row[i], i));
  }
  best = cuda::CombineBlock(best, shared, larger);
  if (threadIdx.x != 0) return;
  y[blockIdx.x] =
      best == 0 ? -1
                : static_cast<int32_t>(0xffffffffu - static_cast<unsigned>(best & 0xffffffffu));
}

void LikeliestOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y) {
  const int64_t rows = y.elements(), count = x.dim(x.rank() - 1);
  if (rows > INT32_MAX || count > INT32_MAX - 1024) {
    throw Error(ErrorCode::kUnsupported, "too many numbers for the GPU");
  }
  cuda::Launch(stream,
               {dim3(static_cast<unsigned>(rows)), dim3(cuda::ThreadsFor(count, 1, 1024)), 0, true},
               &LikeliestKernel, x.data<float>(), static_cast<int>(count), y.data<int32_t>());
}

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(device_likeliest) {
  oort::device_likeliest.Set(&oort::LikeliestOnDevice);
  oort::ShareWithCuda(registry, {"oort.Likeliest"});
}
