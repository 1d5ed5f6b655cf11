// SPDX-License-Identifier: MIT
#include "cuda/conv/pixel_pool.h"

#include <limits>

#include "cuda/conv/conv_launch.h"
#include "cuda/conv/epilogue.cuh"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kPoolThreads = 128;

/// What lies under a window: inputs from `begin` on, `step` apart, and what a mean counts.
struct Covered {
  int64_t begin, count, divisor;
};

__device__ Covered Cover(const PixelPoolCall& pool, const PoolWalk& walk, int64_t i) {
  if (pool.adaptive) {
    const int64_t begin = i * walk.in / walk.out;
    const int64_t count = ((i + 1) * walk.in + walk.out - 1) / walk.out - begin;
    return {begin, count, count};
  }
  const int64_t start = i * walk.stride - walk.pad;
  const int64_t skip = start < 0 ? (-start + walk.dilation - 1) / walk.dilation : 0;
  const int64_t end = start < walk.in ? (walk.in - start + walk.dilation - 1) / walk.dilation : 0;
  const int64_t inside = (walk.kernel < end ? walk.kernel : end) - skip;
  const int64_t count = inside < 0 ? 0 : inside;
  const int64_t last =
      start + walk.kernel < walk.in + walk.pad ? start + walk.kernel : walk.in + walk.pad;
  return {start + skip * walk.dilation, count, pool.include_pad ? last - start : count};
}

template <bool max>
__device__ float Fold(float so_far, float x) {
  if constexpr (max) return x > so_far || isnan(x) ? x : so_far;
  return so_far + x;
}

/// A thread folds `count` channels under one window; or, `parts` of a block share a window's
/// inputs and thread 0 of these adds up what they have, in order.
template <typename T, int count, bool max, int parts>
__global__ void __launch_bounds__(kPoolThreads)
    PoolKernel(const __grid_constant__ PixelPoolCall pool) {
  constexpr int kPlaces = kPoolThreads / parts;
  LetNextKernelStart();
  const int64_t pieces = pool.channels / count;
  const int64_t i = blockIdx.x * int64_t{kPlaces} + threadIdx.x % kPlaces;
  const int part = threadIdx.x / kPlaces;
  const int64_t channel = i % pieces * count, pixel = i / pieces;
  const int64_t x = pixel % pool.width.out, row = pixel / pool.width.out;
  const int64_t y = row % pool.height.out, image = row / pool.height.out;
  const Covered down = Cover(pool, pool.height, y), along = Cover(pool, pool.width, x);
  const int64_t step_down = pool.adaptive ? 1 : pool.height.dilation;
  const int64_t step_along = pool.adaptive ? 1 : pool.width.dilation;
  float folded[count];
#pragma unroll
  for (int c = 0; c < count; ++c) folded[c] = max ? -INFINITY : 0.0f;
  WaitForKernelsBefore();
  const bool here = image < pool.batch;
  if (here) {
    const T* in = static_cast<const T*>(pool.in) + channel;
    const int taps = static_cast<int>(down.count * along.count);
    const int columns = static_cast<int>(along.count);
#pragma unroll 4
    for (int tap = part; tap < taps; tap += parts) {
      const int64_t r = down.begin + tap / columns * step_down;
      const int64_t s = along.begin + tap % columns * step_along;
      float values[count];
      LoadFloats<T, count>(values,
                           in + ((image * pool.height.in + r) * pool.width.in + s) * pool.channels);
#pragma unroll
      for (int c = 0; c < count; ++c) folded[c] = Fold<max>(folded[c], values[c]);
    }
  }
  if constexpr (parts > 1) {
    __shared__ float shared[parts][kPlaces][count + 1];
#pragma unroll
    for (int c = 0; c < count; ++c) shared[part][threadIdx.x % kPlaces][c] = folded[c];
    __syncthreads();
    if (part != 0) return;
    for (int other = 1; other < parts; ++other) {
#pragma unroll
      for (int c = 0; c < count; ++c) {
        folded[c] = Fold<max>(folded[c], shared[other][threadIdx.x][c]);
      }
    }
  }
  if (!here) return;
  if constexpr (!max) {
    const auto divisor =
        static_cast<float>(pool.divisor != 0 ? pool.divisor : down.divisor * along.divisor);
#pragma unroll
    for (int c = 0; c < count; ++c) folded[c] /= divisor;
  }
  StoreFloats<T, count>(static_cast<T*>(pool.out) + pixel * pool.channels + channel, folded);
}

template <typename T, int count, bool max>
void StartPool(const Stream& stream, const PixelPoolCall& call, bool overlap) {
  // Large windows of few outputs are shared by the threads of a block.
  const int64_t items = call.batch * call.height.out * call.width.out * (call.channels / count);
  const int64_t taps = call.adaptive
                           ? (call.height.in / call.height.out) * (call.width.in / call.width.out)
                           : call.height.kernel * call.width.kernel;
  constexpr int kParts = 8;
  const bool shared = taps >= 16 && items < 132 * 2048;
  const int64_t places = shared ? kPoolThreads / kParts : kPoolThreads;
  ConvLaunch launch;
  launch.kernel = shared ? reinterpret_cast<const void*>(&PoolKernel<T, count, max, kParts>)
                         : reinterpret_cast<const void*>(&PoolKernel<T, count, max, 1>);
  launch.blocks = dim3(static_cast<unsigned>((items + places - 1) / places));
  launch.threads = kPoolThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &call);
}

template <typename T>
void PoolAs(const Stream& stream, const PixelPoolCall& call, bool overlap) {
  constexpr int kCount = 16 / sizeof(T);
  const bool whole = call.channels % kCount == 0 &&
                     reinterpret_cast<uintptr_t>(call.in) % 16 == 0 &&
                     reinterpret_cast<uintptr_t>(call.out) % 16 == 0;
  if (whole && call.max) return StartPool<T, kCount, true>(stream, call, overlap);
  if (whole) return StartPool<T, kCount, false>(stream, call, overlap);
  if (call.max) return StartPool<T, 1, true>(stream, call, overlap);
  StartPool<T, 1, false>(stream, call, overlap);
}

}  // namespace

void PoolPixels(const Stream& stream, const PixelPoolCall& call, DType dtype, bool overlap) {
  if (dtype == DType::kF32) return PoolAs<float>(stream, call, overlap);
  if (dtype == DType::kF16) return PoolAs<__half>(stream, call, overlap);
  if (dtype == DType::kBF16) return PoolAs<__nv_bfloat16>(stream, call, overlap);
  throw Error(ErrorCode::kUnsupported, "expected an image of floats of 16 or 32 bits");
}

}  // namespace oort::cuda
