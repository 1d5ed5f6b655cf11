// SPDX-License-Identifier: MIT
#include "layers/reduction/device_token_argmax.h"

#include <cooperative_groups.h>

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

/// The best of all threads of a block, in its first thread.
__device__ unsigned long long BestOfBlock(const float* row, int first, int step, int count) {
  __shared__ unsigned long long shared[32];
  unsigned long long best = 0;
  const auto larger = [](unsigned long long a, unsigned long long b) { return a > b ? a : b; };
#pragma unroll 8
  for (int i = first; i < count; i += step) best = larger(best, RankOf(row[i], i));
  return cuda::CombineBlock(best, shared, larger);
}

__device__ int32_t IndexOf(unsigned long long best) {
  if (best == 0) return -1;
  return static_cast<int32_t>(0xffffffffu - static_cast<unsigned>(best & 0xffffffffu));
}

/// A thread block computes a row.
__global__ void ArgmaxKernel(const float* x, int count, int32_t* y) {
  cuda::LaunchDependents();
  cuda::WaitForPredecessor();
  const unsigned long long best =
      BestOfBlock(x + static_cast<int64_t>(blockIdx.x) * count, static_cast<int>(threadIdx.x),
                  static_cast<int>(blockDim.x), count);
  if (threadIdx.x == 0) y[blockIdx.x] = IndexOf(best);
}

constexpr int kBlocks = 8;  // that share a row

/// A cluster computes a row, because a single thread block takes too long to read it.
__global__ void
#if __CUDA_ARCH__ >= 900
__cluster_dims__(kBlocks, 1, 1)
#endif
    ArgmaxTogether(const float* x, int count, int32_t* y) {
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  __shared__ unsigned long long of_blocks[kBlocks];
  cuda::LaunchDependents();
  cuda::WaitForPredecessor();
  const unsigned long long best =
      BestOfBlock(x + static_cast<int64_t>(blockIdx.y) * count,
                  static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
                  static_cast<int>(gridDim.x * blockDim.x), count);
  const cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();  // nobody is written to before it runs
  if (threadIdx.x == 0) *cluster.map_shared_rank(of_blocks + blockIdx.x, 0) = best;
  cluster.sync();
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  unsigned long long most = 0;
  for (const unsigned long long one : of_blocks) most = one > most ? one : most;
  y[blockIdx.y] = IndexOf(most);
#endif
}

}  // namespace

void TokenArgmaxOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y) {
  const int64_t rows = y.elements(), count = x.dim(x.rank() - 1);
  if (rows > INT32_MAX || count > INT32_MAX - (1 << 16)) {
    throw Error(ErrorCode::kUnsupported, "too many numbers for the GPU");
  }
  constexpr int64_t kMany = 4096, kMostRows = 65535;  // of a grid's second axis
  if (cuda::ComputeMajor(stream.device()) >= 9 && count >= kMany && rows <= kMostRows) {
    const unsigned threads = cuda::ThreadsFor(count, 8 * kBlocks, 1024);
    cuda::Launch(stream, {dim3(kBlocks, static_cast<unsigned>(rows)), dim3(threads), 0, true},
                 &ArgmaxTogether, x.data<float>(), static_cast<int>(count), y.data<int32_t>());
    return;
  }
  cuda::Launch(stream,
               {dim3(static_cast<unsigned>(rows)), dim3(cuda::ThreadsFor(count, 1, 1024)), 0, true},
               &ArgmaxKernel, x.data<float>(), static_cast<int>(count), y.data<int32_t>());
}

}  // namespace oort
