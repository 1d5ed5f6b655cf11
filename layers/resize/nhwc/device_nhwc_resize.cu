// SPDX-License-Identifier: MIT
// A thread has neighbouring channels of one pixel. The arithmetic of coordinates is that of the
// CPU's layer, without contraction: a rounding more or less would pick another neighbour.
#include "layers/resize/nhwc/device_nhwc_resize.h"

#include "cuda/epilogue.cuh"
#include "cuda/kernel_launch.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kResizeThreads = 128, kMostTaps = 4;

/// What an output is made of along one axis.
struct ResizeTaps {
  int64_t index[kMostTaps];
  float weight[kMostTaps];
  int count;
};

__device__ float CubicNear(float x) {
  constexpr float kA = -0.75f;
  return ((kA + 2) * x - (kA + 3)) * x * x + 1;
}
__device__ float CubicFar(float x) {
  constexpr float kA = -0.75f;
  return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
}

__device__ int64_t Inside(int64_t i, int64_t count) {
  return i < 0 ? 0 : (i < count ? i : count - 1);
}

__device__ ResizeTaps TapsOf(const NhwcResizeCall& call, const NhwcResizeAxis& axis, int64_t i) {
  ResizeTaps taps = {};
  const auto place = static_cast<float>(i);
  if (call.mode == NhwcResizeMode::kNearest || call.mode == NhwcResizeMode::kNearestExact) {
    const float shift = call.mode == NhwcResizeMode::kNearestExact ? 0.5f : 0.0f;
    taps.count = 1;
    const auto at = static_cast<int64_t>(floorf(__fmul_rn(place + shift, axis.step)));
    taps.index[0] = at < axis.in ? at : axis.in - 1;
    taps.weight[0] = 1;
    return taps;
  }
  float at = call.align_corners ? __fmul_rn(axis.step, place)
                                : __fsub_rn(__fmul_rn(axis.step, place + 0.5f), 0.5f);
  if (call.mode == NhwcResizeMode::kLinear) {
    at = axis.in == axis.out ? place : (at < 0 ? 0.0f : at);
    const int64_t whole = static_cast<int64_t>(at);
    const int64_t first = whole < axis.in - 1 ? whole : axis.in - 1;
    const float part = __saturatef(at - static_cast<float>(first));
    taps.count = 2;
    taps.index[0] = first;
    taps.index[1] = Inside(first + 1, axis.in);
    taps.weight[0] = 1 - part;
    taps.weight[1] = part;
    return taps;
  }
  const auto whole = static_cast<int64_t>(floorf(at));
  const int64_t first = whole < axis.in - 1 ? whole : axis.in - 1;
  const float t = __saturatef(at - static_cast<float>(first));
  taps.count = 4;
  const float weights[kMostTaps] = {CubicFar(t + 1), CubicNear(t), CubicNear(1 - t),
                                    CubicFar(2 - t)};
#pragma unroll
  for (int tap = 0; tap < kMostTaps; ++tap) {
    taps.index[tap] = Inside(first - 1 + tap, axis.in);
    taps.weight[tap] = weights[tap];
  }
  return taps;
}

template <typename T, int count>
__global__ void __launch_bounds__(kResizeThreads)
    ResizeKernel(const __grid_constant__ NhwcResizeCall call) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t pieces = call.channels / count;
  const int64_t i = blockIdx.x * int64_t{kResizeThreads} + threadIdx.x;
  const int64_t pixel = i / pieces, channel = i % pieces * count;
  const int64_t x = pixel % call.width.out, y = pixel / call.width.out % call.height.out;
  const int64_t image = pixel / call.width.out / call.height.out;
  if (image >= call.batch) return;
  const ResizeTaps down = TapsOf(call, call.height, y), along = TapsOf(call, call.width, x);
  float sums[count] = {};
#pragma unroll
  for (int a = 0; a < kMostTaps; ++a) {
    if (a >= down.count) break;
#pragma unroll
    for (int b = 0; b < kMostTaps; ++b) {
      if (b >= along.count) break;
      const T* from = static_cast<const T*>(call.in) +
                      ((image * call.height.in + down.index[a]) * call.width.in + along.index[b]) *
                          call.channels +
                      channel;
      float values[count];
      LoadFloats<T, count>(values, from);
      const float weight = down.weight[a] * along.weight[b];
#pragma unroll
      for (int c = 0; c < count; ++c) sums[c] = fmaf(weight, values[c], sums[c]);
    }
  }
  StoreFloats<T, count>(static_cast<T*>(call.out) + pixel * call.channels + channel, sums);
}

/// Bytes of the nearest pixel, as pieces of type T.
template <typename T>
__global__ void __launch_bounds__(kResizeThreads)
    CopyKernel(const __grid_constant__ NhwcResizeCall call) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t pieces = call.channels / static_cast<int64_t>(sizeof(T));
  const int64_t i = blockIdx.x * int64_t{kResizeThreads} + threadIdx.x;
  const int64_t pixel = i / pieces, piece = i % pieces;
  const int64_t x = pixel % call.width.out, y = pixel / call.width.out % call.height.out;
  const int64_t image = pixel / call.width.out / call.height.out;
  if (image >= call.batch) return;
  const int64_t row = image * call.height.in + TapsOf(call, call.height, y).index[0];
  const int64_t from = row * call.width.in + TapsOf(call, call.width, x).index[0];
  static_cast<T*>(call.out)[i] = static_cast<const T*>(call.in)[from * pieces + piece];
}

template <typename T>
void ResizeAs(const Stream& stream, const NhwcResizeCall& call) {
  constexpr bool kCopies = sizeof(T) == 1;
  constexpr int kCount = 16 / sizeof(T);
  const bool whole = call.channels % kCount == 0 &&
                     reinterpret_cast<uintptr_t>(call.in) % 16 == 0 &&
                     reinterpret_cast<uintptr_t>(call.out) % 16 == 0;
  const int64_t items =
      call.batch * call.height.out * call.width.out * (call.channels / (whole ? kCount : 1));
  KernelLaunch launch;
  if constexpr (kCopies) {
    launch.kernel = whole ? reinterpret_cast<const void*>(&CopyKernel<uint4>)
                          : reinterpret_cast<const void*>(&CopyKernel<T>);
  } else {
    launch.kernel = whole ? reinterpret_cast<const void*>(&ResizeKernel<T, kCount>)
                          : reinterpret_cast<const void*>(&ResizeKernel<T, 1>);
  }
  launch.blocks = dim3(static_cast<unsigned>((items + kResizeThreads - 1) / kResizeThreads));
  launch.threads = kResizeThreads;
  launch.overlap = true;
  Launch(stream, launch, &call);
}

}  // namespace

void ResizePixels(const Stream& stream, const NhwcResizeCall& call, DType dtype) {
  if (dtype == DType::kF32) return ResizeAs<float>(stream, call);
  if (dtype == DType::kF16) return ResizeAs<__half>(stream, call);
  if (dtype == DType::kBF16) return ResizeAs<__nv_bfloat16>(stream, call);
  const bool copies =
      call.mode == NhwcResizeMode::kNearest || call.mode == NhwcResizeMode::kNearestExact;
  if (copies && (dtype == DType::kU8 || dtype == DType::kI8)) {
    return ResizeAs<uint8_t>(stream, call);
  }
  throw Error(ErrorCode::kUnsupported,
              "expected an image of floats of 16 or 32 bits, or of bytes with the nearest mode");
}

}  // namespace oort::cuda
