// SPDX-License-Identifier: MIT
// Depthwise convolutions. A thread computes neighbouring channels (16 bytes of a pixel where they
// fit) of a few outputs beside each other.
#include <algorithm>

#include "cuda/kernel_launch.h"
#include "layers/convolution/cuda/fast_activation.cuh"
#include "layers/convolution/cuda/warp_tile.cuh"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kDepthwiseThreads = 128;

struct DepthwiseConv {
  ConvCall call;
  bool is_fast;         // the activation is one of these
  FastActivation fast;  // of 16-bit results
};

/// `count` channels as they lie in memory.
template <typename T, int count>
struct ChannelPiece {
  __device__ static Elements<T, count> Load(const T* from) { return LoadElements<T, count>(from); }
  __device__ static void Store(T* to, const Elements<T, count>& piece) { StoreElements(to, piece); }
};
template <typename T>
struct OneElement {
  T at[1];
};
template <typename T>
struct ChannelPiece<T, 1> {
  __device__ static OneElement<T> Load(const T* from) { return {{*from}}; }
  __device__ static void Store(T* to, const OneElement<T>& piece) { *to = piece.at[0]; }
};

/// Which outputs a thread has.
struct DepthwisePlace {
  int channel, x, y;
  int64_t image;
};

template <typename T, int count>
__device__ void WriteDepthwise(const DepthwiseConv& args, const DepthwisePlace& place, int x,
                               const float (&sums)[count]) {
  const ConvCall& conv = args.call;
  const Epilogue& epilogue = conv.epilogue;
  const int64_t at =
      ((place.image * conv.height.out + place.y) * conv.width.out + x) * conv.out_pixel +
      place.channel;
  using Piece = ChannelPiece<T, count>;
  auto results = decltype(Piece::Load(nullptr)){};
  if (epilogue.addend != nullptr) {
    results = Piece::Load(static_cast<const T*>(epilogue.addend) + at);
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    float value = sums[i];
    if (epilogue.bias != nullptr) value += epilogue.bias[place.channel + i];
    if (epilogue.addend != nullptr) value += ToFloat(results.at[i]);
    value = args.is_fast ? Activate(args.fast, value)
                         : Activate(epilogue.activation, epilogue.a, epilogue.b, value);
    results.at[i] = FromFloat<T>(value);
  }
  Piece::Store(static_cast<T*>(conv.out) + at, results);
}

template <int count, int along>
__device__ bool FindPlace(const ConvCall& conv, DepthwisePlace& place) {
  const unsigned i = blockIdx.x * kDepthwiseThreads + threadIdx.x;
  const unsigned pieces = conv.groups / count;
  const unsigned columns = (conv.width.out + along - 1) / along;
  const unsigned pixel = i / pieces, row = pixel / columns;
  place.channel = static_cast<int>(i % pieces) * count;
  place.x = static_cast<int>(pixel % columns) * along;
  place.y = static_cast<int>(row % conv.height.out);
  place.image = row / conv.height.out;
  return place.image < conv.batch;
}

/// Square kernels without dilation: inputs that several outputs of a row read are loaded once.
template <typename T, int count, int kernel, int stride, int along>
__global__ void __launch_bounds__(kDepthwiseThreads)
    DepthwiseRowKernel(const __grid_constant__ DepthwiseConv args) {
  using Piece = ChannelPiece<T, count>;
  using Channels = decltype(Piece::Load(nullptr));
  constexpr int kInputs = (along - 1) * stride + kernel;
  const ConvCall& conv = args.call;
  LaunchDependents();
  DepthwisePlace place;
  const bool here = FindPlace<count, along>(conv, place);
  WaitForPredecessor();
  if (!here) return;
  float sums[along][count] = {};
  const int left = place.x * stride - conv.width.pad;
  const int top = place.y * stride - conv.height.pad;
  const T* weight = static_cast<const T*>(conv.weight) + place.channel;
#pragma unroll 1
  for (int r = 0; r < kernel; ++r) {
    if (static_cast<unsigned>(top + r) >= static_cast<unsigned>(conv.height.in)) continue;
    const T* row = static_cast<const T*>(conv.in) +
                   (place.image * conv.height.in + top + r) * conv.width.in * conv.in_pixel +
                   place.channel;
    // All loads of a row are on their way before the first is used: none is behind a branch.
    Channels taps[kernel], inputs[kInputs];
#pragma unroll
    for (int s = 0; s < kernel; ++s) {
      taps[s] = Piece::Load(weight + int64_t{r * kernel + s} * conv.groups);
    }
#pragma unroll
    for (int j = 0; j < kInputs; ++j) {
      const int x = min(max(left + j, 0), conv.width.in - 1);
      inputs[j] = Piece::Load(row + x * conv.in_pixel);
    }
#pragma unroll
    for (int j = 0; j < kInputs; ++j) {
      const bool padding = static_cast<unsigned>(left + j) >= static_cast<unsigned>(conv.width.in);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const float input = padding ? 0.0f : ToFloat(inputs[j].at[i]);
#pragma unroll
        for (int t = 0; t < along; ++t) {
          const int tap = j - t * stride;
          if (tap < 0 || tap >= kernel) continue;
          sums[t][i] = fmaf(input, ToFloat(taps[tap].at[i]), sums[t][i]);
        }
      }
    }
  }
#pragma unroll
  for (int t = 0; t < along; ++t) {
    if (place.x + t < conv.width.out) {
      WriteDepthwise<T, count>(args, place, place.x + t, sums[t]);
    }
  }
}

/// Any kernel.
template <typename T, int count>
__global__ void __launch_bounds__(kDepthwiseThreads)
    DepthwiseKernel(const __grid_constant__ DepthwiseConv args) {
  const ConvCall& conv = args.call;
  LaunchDependents();
  DepthwisePlace place;
  const bool here = FindPlace<count, 1>(conv, place);
  WaitForPredecessor();
  if (!here) return;
  float sums[count] = {};
  const T* weight = static_cast<const T*>(conv.weight) + place.channel;
  const T* in = static_cast<const T*>(conv.in) + place.channel;
  for (int64_t r = 0; r < conv.height.kernel; ++r) {
    const int64_t y =
        int64_t{place.y} * conv.height.stride - conv.height.pad + r * conv.height.dilation;
    if (y < 0 || y >= conv.height.in) continue;
    for (int64_t s = 0; s < conv.width.kernel; ++s) {
      const int64_t x =
          int64_t{place.x} * conv.width.stride - conv.width.pad + s * conv.width.dilation;
      if (x < 0 || x >= conv.width.in) continue;
      const auto piece = ChannelPiece<T, count>::Load(
          in + ((place.image * conv.height.in + y) * conv.width.in + x) * conv.in_pixel);
      const auto taps =
          ChannelPiece<T, count>::Load(weight + (r * conv.width.kernel + s) * conv.groups);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        sums[i] = fmaf(ToFloat(piece.at[i]), ToFloat(taps.at[i]), sums[i]);
      }
    }
  }
  WriteDepthwise<T, count>(args, place, place.x, sums);
}

struct DepthwiseChoice {
  const void* kernel;
  int count, along;
};

template <typename T>
DepthwiseChoice ChooseDepthwise(const ConvCall& call) {
  constexpr int kCount = 16 / sizeof(T), kAlong = 4;
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  };
  const bool whole = call.groups % kCount == 0 && call.in_pixel % kCount == 0 &&
                     call.out_pixel % kCount == 0 && aligned(call.in) && aligned(call.out) &&
                     aligned(call.epilogue.addend) && aligned(call.weight);
  if (!whole) return {reinterpret_cast<const void*>(&DepthwiseKernel<T, 1>), 1, 1};
  const ConvWalk &down = call.height, &along = call.width;
  const bool square = down.kernel == along.kernel && down.stride == along.stride &&
                      down.dilation == 1 && along.dilation == 1;
  const auto is = [&](int kernel, int stride) {
    return square && down.kernel == kernel && down.stride == stride;
  };
  const void* kernel = nullptr;
  if (is(3, 1)) {
    kernel = reinterpret_cast<const void*>(&DepthwiseRowKernel<T, kCount, 3, 1, kAlong>);
  } else if (is(3, 2)) {
    kernel = reinterpret_cast<const void*>(&DepthwiseRowKernel<T, kCount, 3, 2, kAlong>);
  } else if (is(5, 1)) {
    kernel = reinterpret_cast<const void*>(&DepthwiseRowKernel<T, kCount, 5, 1, kAlong>);
  } else if (is(5, 2)) {
    kernel = reinterpret_cast<const void*>(&DepthwiseRowKernel<T, kCount, 5, 2, kAlong>);
  }
  if (kernel != nullptr) return {kernel, kCount, kAlong};
  return {reinterpret_cast<const void*>(&DepthwiseKernel<T, kCount>), kCount, 1};
}

}  // namespace

void ConvolveDepthwise(const Stream& stream, const ConvCall& call, ConvMath math, bool overlap) {
  const DepthwiseChoice choice = math == ConvMath::kF16    ? ChooseDepthwise<__half>(call)
                                 : math == ConvMath::kBF16 ? ChooseDepthwise<__nv_bfloat16>(call)
                                                           : ChooseDepthwise<float>(call);
  const int64_t items = call.batch * call.height.out *
                        ((call.width.out + choice.along - 1) / choice.along) *
                        (call.groups / choice.count);
  if (items >= int64_t{1} << 31)
    throw Error(ErrorCode::kUnsupported, "too many pixels to convolve");
  const bool narrow = math == ConvMath::kF16 || math == ConvMath::kBF16;
  const DepthwiseConv args = {call, narrow && FastActivation::Supports(call.epilogue.activation),
                              FastActivation::Of(call.epilogue)};
  KernelLaunch launch;
  launch.kernel = choice.kernel;
  launch.blocks = dim3(static_cast<unsigned>((items + kDepthwiseThreads - 1) / kDepthwiseThreads));
  launch.threads = kDepthwiseThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &args);
}

}  // namespace oort::cuda
