// SPDX-License-Identifier: MIT
// Squeeze-and-excite in one launch. A cluster of thread blocks has an image: each block sums up the
// channels of some of its pixels, the blocks add up their sums through each other's shared memory,
// share out the two small products, and multiply the pixels that they have summed up, which are
// then still in a cache.
#include "cuda/cluster.cuh"
#include "cuda/epilogue.cuh"
#include "cuda/kernel_launch.h"
#include "layers/convolution/squeeze_excite/device_squeeze_excite.h"
#include "layers/layout/axes.h"
#include "oort/error.h"

namespace oort {
namespace cuda {
namespace {

constexpr int kExciteThreads = 512, kMostExciteBlocks = 8;

struct ExciteCall {
  const void* in;
  void* out;
  const float *squeeze, *squeeze_bias, *excite, *excite_bias;
  Activation squeeze_activation, excite_activation;
  int64_t pixels;  // of an image
  int channels, hidden;
};

/// Where things lie in shared memory, in floats.
struct ExcitePlan {
  int channels, hidden;
  __host__ __device__ int sums() const { return 0; }  // of this block's pixels
  __host__ __device__ int means() const { return channels; }
  __host__ __device__ int factors() const { return 2 * channels; }
  __host__ __device__ int squeezed() const { return 3 * channels; }
  __host__ __device__ int parts() const { return squeezed() + hidden; }
  __host__ __device__ int total(int count) const { return parts() + kExciteThreads * count; }
};

/// Sums of channels over pixels [begin, end). Threads have `count` neighbouring channels each, and
/// those that have the same ones share the pixels.
template <typename T, int count>
__device__ void SumPixels(const ExciteCall& call, const T* image, int64_t begin, int64_t end,
                          float* parts, float* sums) {
  const int pieces = call.channels / count, thread = static_cast<int>(threadIdx.x);
  for (int first = 0; first < pieces; first += kExciteThreads) {
    const int width = min(pieces - first, kExciteThreads), lanes = kExciteThreads / width;
    const int lane = thread / width, piece = thread % width;
    float sum[count] = {};
    if (lane < lanes) {
      const T* from = image + (first + piece) * count;
#pragma unroll 4
      for (int64_t pixel = begin + lane; pixel < end; pixel += lanes) {
        float values[count];
        LoadFloats<T, count>(values, from + pixel * call.channels);
#pragma unroll
        for (int c = 0; c < count; ++c) sum[c] += values[c];
      }
    }
    __syncthreads();  // the parts before are read
#pragma unroll
    for (int c = 0; c < count; ++c) parts[c * kExciteThreads + thread] = sum[c];
    __syncthreads();
    for (int i = thread; i < width * count; i += kExciteThreads) {
      const float* part = parts + i / width * kExciteThreads + i % width;
      float all = 0;
      for (int other = 0; other < lanes; ++other) all += part[other * width];
      sums[(first + i % width) * count + i / width] = all;
    }
  }
}

/// The small products: a warp computes a number of the first one, a thread one of the second. All
/// blocks get all results.
__device__ void Squeeze(const ExciteCall& call, const Cluster& cluster, const float* means,
                        float* squeezed) {
  constexpr int kWarps = kExciteThreads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int h = static_cast<int>(cluster.rank) * kWarps + warp; h < call.hidden;
       h += static_cast<int>(cluster.blocks) * kWarps) {
    const float* weight = call.squeeze + static_cast<int64_t>(h) * call.channels;
    float sum = 0;
#pragma unroll 12
    for (int c = lane; c < call.channels; c += 32) sum = fmaf(weight[c], means[c], sum);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (lane == 0) {
      sum = Activate(call.squeeze_activation, 0, 0, sum + call.squeeze_bias[h]);
      cluster.Store(&squeezed[h], sum);
    }
  }
}
__device__ void Excite(const ExciteCall& call, const Cluster& cluster, const float* squeezed,
                       float* factors) {
  for (int c = static_cast<int>(cluster.rank * kExciteThreads + threadIdx.x); c < call.channels;
       c += static_cast<int>(cluster.blocks) * kExciteThreads) {
    float sum = call.excite_bias[c];
#pragma unroll 16
    for (int h = 0; h < call.hidden; ++h) {
      sum = fmaf(call.excite[static_cast<int64_t>(h) * call.channels + c], squeezed[h], sum);
    }
    cluster.Store(&factors[c], Activate(call.excite_activation, 0, 0, sum));
  }
}

template <typename T, int count>
__device__ void MultiplyPixels(const ExciteCall& call, const T* from, T* to, int64_t pixels,
                               const float* factors) {
  const int pieces = call.channels / count;
  const int64_t all = pixels * pieces;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < all; i += kExciteThreads) {
    float values[count];
    LoadFloats<T, count>(values, from + i * count);
    const float* factor = factors + i % pieces * count;
#pragma unroll
    for (int c = 0; c < count; ++c) values[c] *= factor[c];
    StoreFloats<T, count>(to + i * count, values);
  }
}

template <typename T, int count>
__global__ void __launch_bounds__(kExciteThreads)
    SqueezeExciteKernel(const __grid_constant__ ExciteCall call) {
  extern __shared__ float excite_shared[];
  const ExcitePlan plan{call.channels, call.hidden};
  float *const sums = excite_shared + plan.sums(), *const means = excite_shared + plan.means();
  float *const factors = excite_shared + plan.factors(), *const squeezed =
                                                             excite_shared + plan.squeezed();
  const Cluster cluster = Cluster::Here();
  const int64_t begin = call.pixels * cluster.rank / cluster.blocks;
  const int64_t end = call.pixels * (cluster.rank + 1) / cluster.blocks;
  const int64_t first = blockIdx.x / cluster.blocks * call.pixels * call.channels;
  const T* in = static_cast<const T*>(call.in) + first;
  LaunchDependents();
  WaitForPredecessor();
  SumPixels<T, count>(call, in, begin, end, excite_shared + plan.parts(), sums);
  cluster.Synchronize();
  for (int c = static_cast<int>(threadIdx.x); c < call.channels; c += kExciteThreads) {
    // All are on their way before the first is used.
    float parts[kMostExciteBlocks], sum = 0;
#pragma unroll
    for (int i = 0; i < kMostExciteBlocks; ++i) {
      const auto block = static_cast<uint32_t>(i);
      parts[i] = block < cluster.blocks ? *cluster.In(block, sums + c) : 0.0f;
    }
#pragma unroll
    for (float part : parts) sum += part;
    means[c] = sum / static_cast<float>(call.pixels);
  }
  __syncthreads();
  Squeeze(call, cluster, means, squeezed);
  cluster.Synchronize();
  Excite(call, cluster, squeezed, factors);
  cluster.Synchronize();
  const int64_t offset = begin * call.channels;
  MultiplyPixels<T, count>(call, in + offset, static_cast<T*>(call.out) + first + offset,
                           end - begin, factors);
}

template <typename T>
void LaunchExcite(const Stream& stream, const ExciteCall& call, int64_t images) {
  constexpr int kCount = 16 / sizeof(T);
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const bool whole = call.channels % kCount == 0 && aligned(call.in) && aligned(call.out);
  constexpr int64_t kMostInLargeClusters = 64;
  KernelLaunch launch;
  if (TraitsOf(stream.device()).clusters) {
    launch.cluster = images > kMostInLargeClusters ? 4 : kMostExciteBlocks;
  }
  launch.kernel = whole ? reinterpret_cast<const void*>(&SqueezeExciteKernel<T, kCount>)
                        : reinterpret_cast<const void*>(&SqueezeExciteKernel<T, 1>);
  launch.blocks = dim3(static_cast<unsigned>(images * launch.cluster));
  launch.threads = kExciteThreads;
  launch.shared =
      static_cast<size_t>(ExcitePlan{call.channels, call.hidden}.total(whole ? kCount : 1)) *
      sizeof(float);
  launch.overlap = true;
  Launch(stream, launch, &call);
}

}  // namespace
}  // namespace cuda

void SqueezeExciteOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y,
                           const ExciteWeights& weights) {
  const NhwcImage image(x.shape());
  cuda::ExciteCall call = {};
  call.in = x.raw();
  call.out = y.raw();
  call.squeeze = weights.squeeze.data<float>();
  call.squeeze_bias = weights.squeeze_bias.data<float>();
  call.excite = weights.excite.data<float>();
  call.excite_bias = weights.excite_bias.data<float>();
  call.squeeze_activation = weights.squeeze_activation;
  call.excite_activation = weights.excite_activation;
  call.pixels = image.pixels();
  call.channels = static_cast<int>(image.channels);
  call.hidden = static_cast<int>(weights.squeeze.dim(0));
  if (image.batch >= int64_t{1} << 24) {
    throw Error(ErrorCode::kUnsupported, "too many images to excite");
  }
  switch (x.dtype()) {
    case DType::kF16: return cuda::LaunchExcite<__half>(stream, call, image.batch);
    case DType::kBF16: return cuda::LaunchExcite<__nv_bfloat16>(stream, call, image.batch);
    default: return cuda::LaunchExcite<float>(stream, call, image.batch);
  }
}

}  // namespace oort
