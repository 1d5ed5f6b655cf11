// SPDX-License-Identifier: MIT
#include "layers/norm/device_norm.h"

#include "cuda/elements.h"
#include "cuda/launch.h"

namespace oort {
namespace {

/// One block for each row; the second and third pass find it in the caches.
template <typename T>
__global__ void NormRowsKernel(const T* x, T* y, NormRows shape, const float* weight,
                               const float* bias) {
  using A = typename cuda::SumOf<T>::Type;
  __shared__ A shared[32];
  const auto add = [](A a, A b) { return a + b; };
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
    if (weight != nullptr) value *= weight[channel];
    if (bias != nullptr) value += bias[channel];
    cuda::Narrow(y[i], value);
  }
}

const float* FloatsOrNull(const Tensor& tensor) {
  return tensor.defined() ? reinterpret_cast<const float*>(tensor.raw()) : nullptr;
}

void NormalizeRowsOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y, const NormRows& rows,
                           const Tensor& weight, const Tensor& bias) {
  if (rows.rows > INT32_MAX) throw Error(ErrorCode::kUnsupported, "too many rows for the GPU");
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    cuda::Launch(
        stream,
        {dim3(static_cast<unsigned>(rows.rows)), dim3(cuda::ThreadsFor(rows.count, 4, 512))},
        &NormRowsKernel<T>, reinterpret_cast<const T*>(x.raw()), reinterpret_cast<T*>(y.raw()),
        rows, FloatsOrNull(weight), FloatsOrNull(bias));
  });
}

template <typename T>
__global__ void ApplyChannelsKernel(const T* x, T* y, int64_t count, int64_t channels,
                                    int64_t inner, const float* affine) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t channel = i / inner % channels;
    const auto value = (cuda::Widen(x[i]) - affine[channel]) * affine[channels + channel] +
                       affine[2 * channels + channel];
    cuda::Narrow(y[i], value);
  }
}

void ApplyChannelsOnDevice(cuda::Stream& stream, const Tensor& x, Tensor& y, int64_t channels,
                           int64_t inner, const Tensor& affine) {
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kThreads = 256;
    cuda::Launch(
        stream, {dim3(cuda::BlocksFor(x.elements(), kThreads, 2, 132 * 32)), dim3(kThreads)},
        &ApplyChannelsKernel<T>, reinterpret_cast<const T*>(x.raw()), reinterpret_cast<T*>(y.raw()),
        x.elements(), channels, inner, FloatsOrNull(affine));
  });
}

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(device_norm) {
  using namespace oort;
  device_normalize_rows.Set(&NormalizeRowsOnDevice);
  device_apply_channels.Set(&ApplyChannelsOnDevice);
  ShareWithCuda(registry, {"nn.LayerNorm", "nn.RMSNorm", "nn.GroupNorm", "nn.BatchNorm1d",
                           "nn.BatchNorm2d", "nn.BatchNorm3d", "nn.InstanceNorm1d",
                           "nn.InstanceNorm2d", "nn.InstanceNorm3d", "nn.PReLU"});
}
