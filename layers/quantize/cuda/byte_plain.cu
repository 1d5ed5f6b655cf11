// SPDX-License-Identifier: MIT
// Any convolution of bytes, an output a thread; and pixels that get more channels.
#include "cuda/kernel_launch.h"
#include "layers/quantize/cuda/byte_epilogue.cuh"

namespace oort::cuda {
namespace {

constexpr int kBytePlainThreads = 256;

__global__ void __launch_bounds__(kBytePlainThreads)
    PlainBytesKernel(const __grid_constant__ ByteConvCall conv) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t filters = int64_t{conv.filters} * conv.groups;
  const int64_t all = conv.rows() * filters;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t filter = i % filters, row = i / filters;
    const int64_t x = row % conv.width.out, y = row / conv.width.out % conv.height.out;
    const int64_t image = row / conv.width.out / conv.height.out;
    const int64_t place = filter / conv.filters * conv.padded_filters() +
                          PlaceOfFilter(static_cast<int>(filter % conv.filters));
    const auto* weight = static_cast<const int8_t*>(conv.weight) + place * conv.depth;
    const uint8_t* in = static_cast<const uint8_t*>(conv.in) + image * conv.in_image +
                        filter / conv.filters * conv.channels * conv.in_channel;
    int sum = 0;
    for (int64_t r = 0; r < conv.height.kernel; ++r) {
      const int64_t down = y * conv.height.stride - conv.height.pad + r * conv.height.dilation;
      if (down < 0 || down >= conv.height.in) continue;
      for (int64_t s = 0; s < conv.width.kernel; ++s) {
        const int64_t along = x * conv.width.stride - conv.width.pad + s * conv.width.dilation;
        if (along < 0 || along >= conv.width.in) continue;
        const uint8_t* pixel = in + (down * conv.width.in + along) * conv.in_pixel;
        const int8_t* tap = weight + (r * conv.width.kernel + s) * conv.tap_channels;
        for (int c = 0; c < conv.channels; ++c) {
          const uint8_t byte = pixel[c * conv.in_channel];
          const int value = conv.in_signed ? static_cast<int8_t>(byte) : byte;
          sum += (value - conv.zero_point) * tap[c];
        }
      }
    }
    const int64_t to = image * conv.out_image + (y * conv.width.out + x) * conv.out_pixel +
                       filter * conv.out_channel;
    StoreResult(conv.epilogue, conv.out, to, sum, static_cast<int>(filter));
  }
}

struct PixelPadding {
  const uint8_t* in;
  uint32_t* out;
  int64_t words;
  int channels, words_each;
};

__global__ void __launch_bounds__(kBytePlainThreads)
    PadPixelsKernel(const __grid_constant__ PixelPadding padding) {
  LaunchDependents();
  WaitForPredecessor();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < padding.words;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t pixel = i / padding.words_each;
    const int channel = static_cast<int>(i % padding.words_each) * 4;
    const uint8_t* from = padding.in + pixel * padding.channels + channel;
    uint32_t word = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (channel + c < padding.channels) word |= uint32_t{from[c]} << (8 * c);
    }
    padding.out[i] = word;
  }
}

dim3 PlainBlocks(int64_t items) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int64_t blocks = (items + kBytePlainThreads - 1) / kBytePlainThreads;
  return {static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks)};
}

}  // namespace

void ConvolveBytesPlain(const Stream& stream, const ByteConvCall& call, bool overlap) {
  KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&PlainBytesKernel);
  launch.blocks = PlainBlocks(call.rows() * call.filters * call.groups);
  launch.threads = kBytePlainThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &call);
}

void PadPixels(const Stream& stream, const void* in, int64_t pixels, int channels, int padded,
               void* out, bool overlap) {
  const PixelPadding padding = {static_cast<const uint8_t*>(in), static_cast<uint32_t*>(out),
                                pixels * (padded / 4), channels, padded / 4};
  KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&PadPixelsKernel);
  launch.blocks = PlainBlocks(padding.words);
  launch.threads = kBytePlainThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &padding);
}

}  // namespace oort::cuda
