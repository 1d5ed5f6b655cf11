// SPDX-License-Identifier: MIT
// Depthwise convolutions of bytes. A thread computes four neighbouring channels of an output: it
// turns words of four channels of four taps into words of four taps of a channel, which DP4A
// multiplies.
#include "cuda/kernel_launch.h"
#include "layers/quantize/cuda/byte_epilogue.cuh"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kByteDepthwiseThreads = 128;
constexpr int kWordChannels = 4;

__device__ inline int DotBytes(uint32_t a, uint32_t b, int sum) {
  int result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/// words[i] byte j becomes words[j] byte i.
__device__ inline void TransposeWords(uint32_t (&words)[4]) {
  const uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
  const uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
  const uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
  const uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

template <bool whole>
__device__ uint32_t LoadWord(const uint8_t* from, int left) {
  if constexpr (whole) return *reinterpret_cast<const uint32_t*>(from);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < kWordChannels; ++i) {
    if (i < left) word |= uint32_t{from[i]} << (8 * i);
  }
  return word;
}

/// `whole`: channels come in words.
template <bool whole>
__global__ void __launch_bounds__(kByteDepthwiseThreads)
    DepthwiseBytesKernel(const __grid_constant__ ByteConvCall conv) {
  LaunchDependents();
  const unsigned i = blockIdx.x * kByteDepthwiseThreads + threadIdx.x;
  const unsigned words = (conv.groups + kWordChannels - 1) / kWordChannels;
  const unsigned pixel = i / words, row = pixel / conv.width.out;
  const int channel = static_cast<int>(i % words) * kWordChannels;
  const int x = static_cast<int>(pixel % conv.width.out) * conv.width.stride - conv.width.pad;
  const int y = static_cast<int>(row % conv.height.out) * conv.height.stride - conv.height.pad;
  const int64_t image = row / conv.height.out;
  const uint32_t flip = conv.in_signed ? 0x80808080u : 0;
  const uint32_t outside = static_cast<uint32_t>(conv.zero_point & 0xff) * 0x01010101u;
  const uint32_t* weight = static_cast<const uint32_t*>(conv.weight) + channel;
  WaitForPredecessor();
  if (image >= conv.batch) return;
  const int left = conv.groups - channel;
  const uint8_t* in = static_cast<const uint8_t*>(conv.in) + image * conv.in_image + channel;
  const int taps = conv.height.kernel * conv.width.kernel;
  int sums[kWordChannels] = {};
  int r = 0, s = 0;
  for (int tap = 0; tap < taps; tap += 4, weight += words * kWordChannels) {
    uint32_t values[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int down = y + r * conv.height.dilation, along = x + s * conv.width.dilation;
      const bool inside = r < conv.height.kernel &&
                          static_cast<unsigned>(down) < static_cast<unsigned>(conv.height.in) &&
                          static_cast<unsigned>(along) < static_cast<unsigned>(conv.width.in);
      const int64_t at = (int64_t{down} * conv.width.in + along) * conv.in_pixel;
      values[t] = inside ? LoadWord<whole>(in + at, left) : outside;
      if (++s == conv.width.kernel) {
        s = 0;
        ++r;
      }
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) values[t] ^= flip;
    TransposeWords(values);
    const uint4 filters = *reinterpret_cast<const uint4*>(weight);
    sums[0] = DotBytes(values[0], filters.x, sums[0]);
    sums[1] = DotBytes(values[1], filters.y, sums[1]);
    sums[2] = DotBytes(values[2], filters.z, sums[2]);
    sums[3] = DotBytes(values[3], filters.w, sums[3]);
  }
  const ByteEpilogue& epilogue = conv.epilogue;
  const int64_t place = int64_t{pixel} * conv.out_pixel + channel;
  if (!whole || !epilogue.bytes) {
    for (int c = 0; c < kWordChannels && c < left; ++c) {
      StoreResult(epilogue, conv.out, place + c, sums[c] + epilogue.starts[channel + c],
                  channel + c);
    }
    return;
  }
  uint32_t addend = 0, results = 0;
  if (epilogue.addend != nullptr) {
    addend = LoadWord<true>(static_cast<const uint8_t*>(epilogue.addend) + place, kWordChannels);
  }
#pragma unroll
  for (int c = 0; c < kWordChannels; ++c) {
    const float value =
        FinishSum(epilogue, sums[c] + epilogue.starts[channel + c], epilogue.scale[channel + c],
                  epilogue.bias[channel + c], addend >> (8 * c));
    results |= ByteOf(epilogue, value) << (8 * c);
  }
  *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(conv.out) + place) = results;
}

}  // namespace

void ConvolveBytesDepthwise(const Stream& stream, const ByteConvCall& call, bool overlap) {
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % kWordChannels == 0;
  };
  const bool whole = call.groups % kWordChannels == 0 && call.in_pixel % kWordChannels == 0 &&
                     call.out_pixel % kWordChannels == 0 && aligned(call.in) && aligned(call.out) &&
                     aligned(call.epilogue.addend);
  const int64_t items = call.rows() * ((call.groups + kWordChannels - 1) / kWordChannels);
  if (items >= int64_t{1} << 31) {
    throw Error(ErrorCode::kUnsupported, "too many pixels to convolve");
  }
  KernelLaunch launch;
  launch.kernel = whole ? reinterpret_cast<const void*>(&DepthwiseBytesKernel<true>)
                        : reinterpret_cast<const void*>(&DepthwiseBytesKernel<false>);
  launch.blocks =
      dim3(static_cast<unsigned>((items + kByteDepthwiseThreads - 1) / kByteDepthwiseThreads));
  launch.threads = kByteDepthwiseThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &call);
}

}  // namespace oort::cuda
