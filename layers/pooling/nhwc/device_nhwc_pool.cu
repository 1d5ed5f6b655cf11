// SPDX-License-Identifier: MIT
#include "layers/pooling/nhwc/device_nhwc_pool.h"

#include <limits>

#include "cuda/epilogue.cuh"
#include "cuda/kernel_launch.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kPoolThreads = 128;

/// What lies under a window: inputs from `begin` on, and what a mean counts.
struct Covered {
  int begin, count, divisor;
};

__device__ Covered Cover(const NhwcPoolCall& pool, const PoolWalk& walk, int i) {
  if (pool.adaptive) {
    const auto begin = static_cast<int>(int64_t{i} * walk.in / walk.out);
    const auto end = static_cast<int>(((i + int64_t{1}) * walk.in + walk.out - 1) / walk.out);
    return {begin, end - begin, end - begin};
  }
  const int start = i * walk.stride - walk.pad;
  const int skip = start < 0 ? (-start + walk.dilation - 1) / walk.dilation : 0;
  const int end = start < walk.in ? (walk.in - start + walk.dilation - 1) / walk.dilation : 0;
  const int count = max(0, min(walk.kernel, end) - skip);
  const int last = min(start + walk.kernel, walk.in + walk.pad);
  return {start + skip * walk.dilation, count, pool.include_pad ? last - start : count};
}

template <bool max>
__device__ float Fold(float so_far, float x) {
  if constexpr (max) return x > so_far || isnan(x) ? x : so_far;
  return so_far + x;
}

/// Calls fold(row, column) for every `parts`-th input of a window.
template <int parts, typename Body>
__device__ void FoldPart(int part, int rows, int columns, const Body& fold) {
  int r = part / max(columns, 1), s = part - r * columns;
#pragma unroll 4
  for (int tap = part; tap < rows * columns; tap += parts) {
    fold(r, s);
    for (s += parts; s >= columns; ++r) s -= columns;
  }
}

/// The same for all of them; those of the usual 3 x 3 are fetched together.
template <typename Body>
__device__ void FoldWindow(int rows, int columns, const Body& fold) {
  if (rows != 3 || columns != 3) return FoldPart<1>(0, rows, columns, fold);
#pragma unroll
  for (int i = 0; i < 9; ++i) fold(i / 3, i % 3);
}

/// A thread folds `count` channels under one window. Or `parts` threads of a thread block share the
/// inputs of a window, and the first of them combines their results in a fixed order.
template <typename T, int count, bool max, int parts>
__global__ void __launch_bounds__(kPoolThreads)
    PoolKernel(const __grid_constant__ NhwcPoolCall pool) {
  constexpr int kPlaces = kPoolThreads / parts;
  LaunchDependents();
  const unsigned pieces = pool.channels / count;
  const unsigned i = blockIdx.x * kPlaces + threadIdx.x % kPlaces;
  const int part = threadIdx.x / kPlaces;
  const unsigned pixel = i / pieces, row = pixel / pool.width.out;
  const int channel = static_cast<int>(i % pieces) * count;
  const int x = pixel % pool.width.out, y = row % pool.height.out;
  const int64_t image = row / pool.height.out;
  const Covered down = Cover(pool, pool.height, y), along = Cover(pool, pool.width, x);
  const int step_down = pool.adaptive ? 1 : pool.height.dilation;
  const int step_along = pool.adaptive ? 1 : pool.width.dilation;
  float folded[count];
#pragma unroll
  for (int c = 0; c < count; ++c) folded[c] = max ? -INFINITY : 0.0f;
  WaitForPredecessor();
  const bool here = image < pool.batch;
  if (here) {
    const T* in =
        static_cast<const T*>(pool.in) + channel +
        ((image * pool.height.in + down.begin) * pool.width.in + along.begin) * pool.channels;
    const auto fold = [&](int r, int s) {
      float values[count];
      LoadFloats<T, count>(
          values, in + (int64_t{r} * step_down * pool.width.in + s * step_along) * pool.channels);
#pragma unroll
      for (int c = 0; c < count; ++c) folded[c] = Fold<max>(folded[c], values[c]);
    };
    if constexpr (parts == 1) {
      FoldWindow(down.count, along.count, fold);
    } else {
      FoldPart<parts>(part, down.count, along.count, fold);
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
    const auto divisor = static_cast<float>(
        pool.divisor != 0 ? pool.divisor : int64_t{down.divisor} * along.divisor);
#pragma unroll
    for (int c = 0; c < count; ++c) folded[c] /= divisor;
  }
  StoreFloats<T, count>(static_cast<T*>(pool.out) + int64_t{pixel} * pool.channels + channel,
                        folded);
}

/// The largest of the bytes of each word.
template <bool is_signed>
__device__ uint32_t Largest(uint32_t a, uint32_t b) {
  return is_signed ? __vmaxs4(a, b) : __vmaxu4(a, b);
}

/// The bytes of `count` neighbouring channels as words: 16 of them, 4 or 1.
template <int count>
struct ByteWords {
  static constexpr int kWords = count == 16 ? 4 : 1;
  uint32_t words[kWords];
  __device__ static ByteWords Load(const uint8_t* from) {
    if constexpr (count == 16) {
      const uint4 four = *reinterpret_cast<const uint4*>(from);
      return {{four.x, four.y, four.z, four.w}};
    } else {
      return {{count == 4 ? *reinterpret_cast<const uint32_t*>(from) : uint32_t{*from}}};
    }
  }
  __device__ void Store(uint8_t* to) const {
    if constexpr (count == 16) {
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    } else if constexpr (count == 4) {
      *reinterpret_cast<uint32_t*>(to) = words[0];
    } else {
      *to = static_cast<uint8_t>(words[0]);
    }
  }
};

/// The largest bytes under one window of `count` neighbouring channels.
template <int count, bool is_signed>
__global__ void __launch_bounds__(kPoolThreads)
    LargestBytesKernel(const __grid_constant__ NhwcPoolCall pool) {
  LaunchDependents();
  const unsigned pieces = pool.channels / count;
  const unsigned i = blockIdx.x * kPoolThreads + threadIdx.x;
  const unsigned pixel = i / pieces, row = pixel / pool.width.out;
  const int channel = static_cast<int>(i % pieces) * count;
  const int x = pixel % pool.width.out, y = row % pool.height.out;
  const int64_t image = row / pool.height.out;
  const Covered down = Cover(pool, pool.height, y), along = Cover(pool, pool.width, x);
  const int step_down = pool.adaptive ? 1 : pool.height.dilation;
  const int step_along = pool.adaptive ? 1 : pool.width.dilation;
  WaitForPredecessor();
  if (image >= pool.batch) return;
  const uint8_t* in =
      static_cast<const uint8_t*>(pool.in) + channel +
      ((image * pool.height.in + down.begin) * pool.width.in + along.begin) * pool.channels;
  using Bytes = ByteWords<count>;
  Bytes most;
#pragma unroll
  for (int i = 0; i < Bytes::kWords; ++i) most.words[i] = is_signed ? 0x80808080u : 0;
  const auto fold = [&](int r, int s) {
    const Bytes bytes =
        Bytes::Load(in + (int64_t{r} * step_down * pool.width.in + s * step_along) * pool.channels);
#pragma unroll
    for (int i = 0; i < Bytes::kWords; ++i) {
      most.words[i] = Largest<is_signed>(most.words[i], bytes.words[i]);
    }
  };
  FoldWindow(down.count, along.count, fold);
  most.Store(static_cast<uint8_t*>(pool.out) + int64_t{pixel} * pool.channels + channel);
}

template <bool is_signed>
void PoolBytes(const Stream& stream, const NhwcPoolCall& call, bool overlap) {
  const auto whole = [&](int bytes) {
    const auto place = static_cast<uintptr_t>(bytes);
    return call.channels % bytes == 0 && reinterpret_cast<uintptr_t>(call.in) % place == 0 &&
           reinterpret_cast<uintptr_t>(call.out) % place == 0;
  };
  const int count = whole(16) ? 16 : whole(4) ? 4 : 1;
  const int64_t items = call.batch * call.height.out * call.width.out * (call.channels / count);
  if (items >= int64_t{1} << 31) throw Error(ErrorCode::kUnsupported, "too many pixels to pool");
  KernelLaunch launch;
  launch.kernel = count == 16  ? reinterpret_cast<const void*>(&LargestBytesKernel<16, is_signed>)
                  : count == 4 ? reinterpret_cast<const void*>(&LargestBytesKernel<4, is_signed>)
                               : reinterpret_cast<const void*>(&LargestBytesKernel<1, is_signed>);
  launch.blocks = dim3(static_cast<unsigned>((items + kPoolThreads - 1) / kPoolThreads));
  launch.threads = kPoolThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &call);
}

template <typename T, int count, bool max>
void StartPool(const Stream& stream, const NhwcPoolCall& call, bool overlap) {
  // Large windows of few outputs are shared by the threads of a block.
  const int64_t items = call.batch * call.height.out * call.width.out * (call.channels / count);
  const int64_t taps = call.adaptive
                           ? (call.height.in / call.height.out) * (call.width.in / call.width.out)
                           : call.height.kernel * call.width.kernel;
  constexpr int kParts = 8;
  const bool shared = taps >= 16 && items < 132 * 2048;
  const int64_t places = shared ? kPoolThreads / kParts : kPoolThreads;
  KernelLaunch launch;
  launch.kernel = shared ? reinterpret_cast<const void*>(&PoolKernel<T, count, max, kParts>)
                         : reinterpret_cast<const void*>(&PoolKernel<T, count, max, 1>);
  launch.blocks = dim3(static_cast<unsigned>((items + places - 1) / places));
  launch.threads = kPoolThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &call);
}

template <typename T>
void PoolAs(const Stream& stream, const NhwcPoolCall& call, bool overlap) {
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

void PoolPixels(const Stream& stream, const NhwcPoolCall& call, DType dtype, bool overlap) {
  if (dtype == DType::kF32) return PoolAs<float>(stream, call, overlap);
  if (dtype == DType::kF16) return PoolAs<__half>(stream, call, overlap);
  if (dtype == DType::kBF16) return PoolAs<__nv_bfloat16>(stream, call, overlap);
  if (dtype == DType::kU8 && call.max) return PoolBytes<false>(stream, call, overlap);
  if (dtype == DType::kI8 && call.max) return PoolBytes<true>(stream, call, overlap);
  throw Error(ErrorCode::kUnsupported, "expected an image of floats of 16 or 32 bits, or bytes");
}

}  // namespace oort::cuda
