// SPDX-License-Identifier: MIT
#include "layers/norm/device_norm.h"

#include <type_traits>

#include "cuda/elements.h"
#include "cuda/epilogue.cuh"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"

namespace oort {
namespace {

/// One thread block computes a row in three passes (mean, variance, output). The second and the
/// third read it from the caches.
template <typename T, typename W>
__global__ void NormRowsKernel(const T* x, T* y, NormRows shape, const W* weight, const W* bias) {
  using A = typename cuda::SumOf<T>::Type;
  __shared__ A shared[32];
  const auto add = [](A a, A b) { return a + b; };
  cuda::WaitForPredecessor();
  cuda::LaunchDependents();
  const int64_t row = blockIdx.x;
  x += row * shape.count;
  y += row * shape.count;
  A mean = 0;
  if (!shape.rms) {
    A sum = 0;
    for (int64_t i = threadIdx.x; i < shape.count; i += blockDim.x) sum += cuda::Widen(x[i]);
    mean = cuda::CombineBlock(sum, shared, add) / static_cast<A>(shape.count);
  }
  A squares = 0;
  for (int64_t i = threadIdx.x; i < shape.count; i += blockDim.x) {
    const A difference = cuda::Widen(x[i]) - mean;
    squares += difference * difference;
  }
  squares = cuda::CombineBlock(squares, shared, add);
  const A scale = A(1) / sqrt(squares / static_cast<A>(shape.count) + static_cast<A>(shape.eps));
  const int64_t first = row % shape.groups * (shape.count / shape.inner);
  for (int64_t i = threadIdx.x; i < shape.count; i += blockDim.x) {
    const int64_t channel = first + (shape.inner == 1 ? i : i / shape.inner);
    A value = (cuda::Widen(x[i]) - mean) * scale;
    if (weight != nullptr) value *= static_cast<A>(weight[channel]);
    if (bias != nullptr) value += static_cast<A>(bias[channel]);
    cuda::Narrow(y[i], value);
  }
}

constexpr int kRowPiece = 8;    // elements that a lane loads at once
constexpr int kRowPieces = 4;   // pieces of a lane
constexpr int kRowsAtOnce = 2;  // of a thread block
constexpr int64_t kWarpRow = kRowPieces * 32 * kRowPiece;

__device__ __forceinline__ float SumOfWarp(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

/// A warp computes a row that fits into its registers, so that it is read once. One weight for each
/// element of a row.
template <typename T>
__global__ void __launch_bounds__(32 * kRowsAtOnce)
    NormShortRowsKernel(const T* x, T* y, NormRows shape, const float* weight, const float* bias) {
  cuda::WaitForPredecessor();
  cuda::LaunchDependents();
  const int64_t row = int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.x / 32;
  if (row >= shape.rows) return;
  const int lane = threadIdx.x % 32, count = static_cast<int>(shape.count);
  x += row * shape.count;
  y += row * shape.count;
  float values[kRowPieces][kRowPiece] = {};
#pragma unroll
  for (int i = 0; i < kRowPieces; ++i) {
    const int first = (i * 32 + lane) * kRowPiece;
    if (first < count) cuda::LoadFloats(values[i], x + first);
  }
  float mean = 0;
  if (!shape.rms) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kRowPieces; ++i) {
#pragma unroll
      for (float value : values[i]) sum += value;
    }
    mean = SumOfWarp(sum) / static_cast<float>(count);
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kRowPieces; ++i) {
    if ((i * 32 + lane) * kRowPiece >= count) continue;
#pragma unroll
    for (float value : values[i]) squares += (value - mean) * (value - mean);
  }
  squares = SumOfWarp(squares);
  const float scale =
      1.0f / sqrtf(squares / static_cast<float>(count) + static_cast<float>(shape.eps));
#pragma unroll
  for (int i = 0; i < kRowPieces; ++i) {
    const int first = (i * 32 + lane) * kRowPiece;
    if (first >= count) continue;
    float weights[kRowPiece], biases[kRowPiece];
    if (weight != nullptr) cuda::LoadFloats(weights, weight + first);
    if (bias != nullptr) cuda::LoadFloats(biases, bias + first);
#pragma unroll
    for (int k = 0; k < kRowPiece; ++k) {
      float value = (values[i][k] - mean) * scale;
      if (weight != nullptr) value *= weights[k];
      if (bias != nullptr) value += biases[k];
      values[i][k] = value;
    }
    cuda::StoreFloats(y + first, values[i]);
  }
}

template <typename W>
const W* WeightsOrNull(const Tensor& tensor) {
  return tensor.defined() ? reinterpret_cast<const W*>(tensor.raw()) : nullptr;
}

template <typename T, typename W>
void StartNorm(cuda::Stream& stream, const Tensor& x, Tensor& y, const NormRows& rows,
               const Tensor& weight, const Tensor& bias) {
  // Language models have it between products that overlap.
  constexpr bool kOverlaps = true;
  if constexpr (std::is_same_v<W, float> && !std::is_same_v<T, double>) {
    const auto begins = [](const Tensor& tensor) {
      return tensor.defined() ? reinterpret_cast<uintptr_t>(tensor.raw()) : 0;
    };
    const bool aligned = (begins(x) | begins(y) | begins(weight) | begins(bias)) % 16 == 0;
    if (aligned && rows.groups == 1 && rows.inner == 1 && rows.count <= kWarpRow &&
        rows.count % kRowPiece == 0) {
      const unsigned blocks = cuda::BlocksFor(rows.rows, kRowsAtOnce);
      return cuda::LaunchBetween(stream, {dim3(blocks), dim3(32 * kRowsAtOnce), 0, kOverlaps},
                                 &NormShortRowsKernel<T>, reinterpret_cast<const T*>(x.raw()),
                                 reinterpret_cast<T*>(y.raw()), rows, WeightsOrNull<float>(weight),
                                 WeightsOrNull<float>(bias));
    }
  }
  const cuda::Grid grid{dim3(static_cast<unsigned>(rows.rows)),
                        dim3(cuda::ThreadsFor(rows.count, 4, 512)), 0, kOverlaps};
  cuda::LaunchBetween(stream, grid, &NormRowsKernel<T, W>, reinterpret_cast<const T*>(x.raw()),
                      reinterpret_cast<T*>(y.raw()), rows, WeightsOrNull<W>(weight),
                      WeightsOrNull<W>(bias));
}

}  // namespace

void NormalizeRowsOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y, const NormRows& rows,
                           const Tensor& weight, const Tensor& bias) {
  if (rows.rows > INT32_MAX) throw Error(ErrorCode::kUnsupported, "too many rows for the GPU");
  if (weight.defined() && bias.defined() && weight.dtype() != bias.dtype()) {
    throw Error(ErrorCode::kUnsupported, "weight and bias differ in dtype on the GPU");
  }
  const bool wide = weight.dtype() == DType::kF64 || bias.dtype() == DType::kF64;
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (wide) {
      StartNorm<T, double>(stream, x, y, rows, weight, bias);
    } else {
      StartNorm<T, float>(stream, x, y, rows, weight, bias);
    }
  });
}

namespace {

template <typename T>
__global__ void ApplyChannelsKernel(const T* x, T* y, int64_t count, int64_t channels,
                                    int64_t inner, const double* affine) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t channel = i / inner % channels;
    using A = typename cuda::SumOf<T>::Type;
    const A center = static_cast<A>(affine[channel]);
    const A scale = static_cast<A>(affine[channels + channel]);
    const A shift = static_cast<A>(affine[2 * channels + channel]);
    const A value = (cuda::Widen(x[i]) - center) * scale + shift;
    cuda::Narrow(y[i], value);
  }
}

}  // namespace

void ApplyChannelsOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y, int64_t channels,
                           int64_t inner, const Tensor& affine) {
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kThreads = 256;
    cuda::Launch(
        stream, {dim3(cuda::BlocksFor(x.elements(), kThreads, 2, 132 * 32)), dim3(kThreads)},
        &ApplyChannelsKernel<T>, reinterpret_cast<const T*>(x.raw()), reinterpret_cast<T*>(y.raw()),
        x.elements(), channels, inner, WeightsOrNull<double>(affine));
  });
}

}  // namespace oort
