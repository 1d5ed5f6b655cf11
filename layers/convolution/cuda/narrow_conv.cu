// SPDX-License-Identifier: MIT
// Direct convolution for few channels. A thread block keeps the filters in shared memory and takes
// tile after tile of 16 by 16 pixels. The patch under their windows is copied to shared memory
// once, and the tensor cores read each tap from there.
#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/tiles.h"
#include "layers/convolution/cuda/fast_activation.cuh"
#include "layers/convolution/cuda/narrow_conv.h"
#include "layers/convolution/cuda/warp_tile.cuh"

namespace oort::cuda {
namespace {

constexpr int kNarrowThreads = 256, kNarrowWarps = kNarrowThreads / 32;
constexpr int kSide = 16, kNarrowFilters = 64;  // of a tile
constexpr int kWarpPixels = 2 * kSide;          // two lines of it
constexpr int kPixelBytes = 16, kPixelItems = 8;
constexpr int kResultBytes = kWarpPixels * kRowBytes;  // of a warp

struct NarrowConv {
  const void* in;
  const void* weight;
  const float* bias;
  void* out;
  FastActivation activation;
  int height, width, out_height, out_width, filters;
  int in_pixel, out_pixel, taps, kernel_width;
  int stride_down, stride_along, pad_top, pad_left;
  int patch_rows, patch_columns, steps, filter_bytes;
  int tiles_down, tiles_along, tiles;
};

struct NarrowTile {
  int image, y, x;  // of its first output
  __device__ NarrowTile(const NarrowConv& conv, int tile) {
    const int plane = conv.tiles_down * conv.tiles_along;
    image = tile / plane;
    y = tile % plane / conv.tiles_along * kSide;
    x = tile % plane % conv.tiles_along * kSide;
  }
};

__device__ void CopyFilters(const NarrowConv& conv, uint32_t to, int first) {
  const int pieces = conv.steps * 2;  // of a filter: a tap each
  for (int i = threadIdx.x; i < kNarrowFilters * pieces; i += kNarrowThreads) {
    const int filter = i / pieces, tap = i % pieces;
    const bool valid = first + filter < conv.filters && tap < conv.taps;
    const auto* from = static_cast<const uint4*>(conv.weight) +
                       (valid ? static_cast<int64_t>(first + filter) * conv.taps + tap : 0);
    CopyOrZero<16, false>(to + filter * conv.filter_bytes + tap * kPixelBytes, from, valid);
  }
}

/// What is under the windows of a tile.
__device__ void CopyPatch(const NarrowConv& conv, uint32_t to, int tile) {
  const NarrowTile at(conv, tile);
  const int top = at.y * conv.stride_down - conv.pad_top;
  const int left = at.x * conv.stride_along - conv.pad_left;
  for (int i = threadIdx.x; i < conv.patch_rows * conv.patch_columns; i += kNarrowThreads) {
    const int y = top + i / conv.patch_columns, x = left + i % conv.patch_columns;
    const bool valid = static_cast<unsigned>(y) < static_cast<unsigned>(conv.height) &&
                       static_cast<unsigned>(x) < static_cast<unsigned>(conv.width);
    const int64_t pixel = (static_cast<int64_t>(at.image) * conv.height + y) * conv.width + x;
    const char* from =
        static_cast<const char*>(conv.in) + (valid ? pixel * conv.in_pixel * 2 : int64_t{0});
    CopyOrZero<16, false>(to + i * kPixelBytes, from, valid);
  }
}

/// Two lines of 16 pixels by 64 filters.
template <ConvMath math>
class NarrowWarp {
 public:
  using T = typename ConvItem<math>::Type;
  static constexpr int kPairs = kNarrowFilters / 16;

  __device__ void Multiply(const NarrowConv& conv, uint32_t patch, uint32_t filters) {
    const int lane = threadIdx.x % 32, line = threadIdx.x / 32 * 2;
    int tap = lane / 16, down = tap / conv.kernel_width, along = tap % conv.kernel_width;
    const int row_bytes = conv.patch_columns * kPixelBytes;
    const uint32_t pixel =
        patch + line * conv.stride_down * row_bytes + lane % 16 * conv.stride_along * kPixelBytes;
    const uint32_t filter =
        filters + (lane % 8 + lane / 16 * 8) * conv.filter_bytes + lane / 8 % 2 * kPixelBytes;
    for (int step = 0; step < conv.steps; ++step) {
      // Filters are zero behind the last tap, so any pixel may be read.
      const uint32_t at = tap < conv.taps ? down * row_bytes + along * kPixelBytes : 0;
      uint32_t left[2][4], right[kPairs][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        LoadMatrices(left[i], pixel + at + i * conv.stride_down * row_bytes);
      }
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        LoadMatrices(right[j], filter + j * 16 * conv.filter_bytes + step * 2 * kPixelBytes);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          MultiplyAdd<math>(sums_[i][2 * j], left[i], right[j][0], right[j][1]);
          MultiplyAdd<math>(sums_[i][2 * j + 1], left[i], right[j][2], right[j][3]);
        }
      }
      tap += 2;
      along += 2;
      while (along >= conv.kernel_width) {
        along -= conv.kernel_width;
        ++down;
      }
    }
  }

  /// Puts the results into shared memory, 128 bytes a pixel.
  __device__ void Finish(const NarrowConv& conv, uint32_t to, int first) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 2 * kPairs; ++j) {
      const int filter = first + 8 * j + 2 * (lane % 4);
      float2 bias = make_float2(0, 0);
      if (conv.bias != nullptr && filter < conv.filters) {
        bias = *reinterpret_cast<const float2*>(conv.bias + filter);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = sums_[i / 2][j][i % 2 * 2] + bias.x;
        const float y = sums_[i / 2][j][i % 2 * 2 + 1] + bias.y;
        StorePair<T>(to + PieceAt(lane / 4 + i * 8, j) + lane % 4 * 4, Activate(conv.activation, x),
                     Activate(conv.activation, y));
      }
    }
  }

 private:
  float sums_[2][2 * kPairs][4] = {};
};

/// Writes what a warp has put into shared memory: whole pieces of 8 filters.
template <typename T>
__device__ void WritePixels(const NarrowConv& conv, uint32_t from, const NarrowTile& tile,
                            int first) {
  const int lane = threadIdx.x % 32, line = threadIdx.x / 32 * 2;
#pragma unroll
  for (int i = 0; i < kWarpPixels * 8 / 32; ++i) {
    const int pixel = (i * 32 + lane) / 8, piece = lane % 8;
    const int y = tile.y + line + pixel / kSide, x = tile.x + pixel % kSide;
    const uint4 words = LoadShared16(from + PieceAt(pixel, piece));
    if (y >= conv.out_height || x >= conv.out_width || first + piece * 8 >= conv.filters) continue;
    const int64_t row = (static_cast<int64_t>(tile.image) * conv.out_height + y) * conv.out_width;
    T* out = static_cast<T*>(conv.out) + (row + x) * conv.out_pixel + first + piece * 8;
    *reinterpret_cast<uint4*>(out) = words;
  }
}

template <ConvMath math>
__global__ void __launch_bounds__(kNarrowThreads, 2)
    ConvolveNarrowTiles(const __grid_constant__ NarrowConv conv) {
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t base = SharedAddress(shared);
  const uint32_t results = base + threadIdx.x / 32 * kResultBytes;
  const uint32_t filters = base + kNarrowWarps * kResultBytes;
  const uint32_t patches = filters + kNarrowFilters * conv.filter_bytes;
  const int patch_bytes = conv.patch_rows * conv.patch_columns * kPixelBytes;
  const int first = blockIdx.y * kNarrowFilters;
  LaunchDependents();
  CopyFilters(conv, filters, first);  // no kernel writes them
  WaitForPredecessor();
  int tile = blockIdx.x, buffer = 0;
  CopyPatch(conv, patches, tile);
  CommitCopies();
  for (; tile < conv.tiles; tile += gridDim.x) {
    const int next = tile + gridDim.x;
    if (next < conv.tiles) CopyPatch(conv, patches + (buffer ^ 1) * patch_bytes, next);
    CommitCopies();
    WaitForCopies<1>();
    __syncthreads();
    NarrowWarp<math> warp;
    warp.Multiply(conv, patches + buffer * patch_bytes, filters);
    warp.Finish(conv, results, first);
    __syncwarp();
    WritePixels<typename NarrowWarp<math>::T>(conv, results, NarrowTile(conv, tile), first);
    __syncthreads();  // nobody reads this patch any more
    buffer ^= 1;
  }
}

int PatchSide(const ConvWalk& walk) { return (kSide - 1) * walk.stride + walk.kernel; }

/// An odd number of 16-byte pieces, so that reads of 8 filters have no bank conflicts.
int FilterBytes(const ConvCall& call) {
  return static_cast<int>((call.taps() + 1) / 2 * 2 + 1) * kPixelBytes;
}

int NarrowSharedBytes(const ConvCall& call) {
  return kNarrowWarps * kResultBytes + kNarrowFilters * FilterBytes(call) +
         2 * PatchSide(call.height) * PatchSide(call.width) * kPixelBytes;
}

}  // namespace

bool ConvolvesNarrow(const ConvCall& call, ConvMath math) {
  constexpr int kMostKernel = 16, kMostStride = 4, kMostShared = 112 * 1024;
  const auto fits = [](const ConvWalk& walk) {
    return walk.kernel <= kMostKernel && walk.stride <= kMostStride && walk.dilation == 1;
  };
  return (math == ConvMath::kF16 || math == ConvMath::kBF16) && call.groups == 1 &&
         call.channels == kPixelItems && call.in_pixel % 8 == 0 && call.out_pixel % 8 == 0 &&
         call.filters % 8 == 0 && call.depth == call.taps() * kPixelItems && fits(call.height) &&
         fits(call.width) && call.epilogue.addend == nullptr &&
         FastActivation::Supports(call.epilogue.activation) && Convolves(call, math) &&
         NarrowSharedBytes(call) <= kMostShared;
}

void ConvolveNarrow(const Stream& stream, const ConvCall& call, ConvMath math, bool overlap) {
  NarrowConv conv = {};
  conv.in = call.in;
  conv.weight = call.weight;
  conv.bias = call.epilogue.bias;
  conv.out = call.out;
  conv.activation = FastActivation::Of(call.epilogue);
  conv.height = call.height.in;
  conv.width = call.width.in;
  conv.out_height = call.height.out;
  conv.out_width = call.width.out;
  conv.filters = call.filters;
  conv.in_pixel = static_cast<int>(call.in_pixel);
  conv.out_pixel = static_cast<int>(call.out_pixel);
  conv.taps = static_cast<int>(call.taps());
  conv.kernel_width = call.width.kernel;
  conv.stride_down = call.height.stride;
  conv.stride_along = call.width.stride;
  conv.pad_top = call.height.pad;
  conv.pad_left = call.width.pad;
  conv.patch_rows = PatchSide(call.height);
  conv.patch_columns = PatchSide(call.width);
  conv.steps = (conv.taps + 1) / 2;
  conv.filter_bytes = FilterBytes(call);
  conv.tiles_down = (conv.out_height + kSide - 1) / kSide;
  conv.tiles_along = (conv.out_width + kSide - 1) / kSide;
  conv.tiles = static_cast<int>(call.batch * conv.tiles_down * conv.tiles_along);

  KernelLaunch launch;
  launch.kernel =
      reinterpret_cast<const void*>(math == ConvMath::kF16 ? &ConvolveNarrowTiles<ConvMath::kF16>
                                                           : &ConvolveNarrowTiles<ConvMath::kBF16>);
  const int columns = (call.filters + kNarrowFilters - 1) / kNarrowFilters;
  const int most = std::max(1, 2 * TraitsOf(stream.device()).multiprocessors / columns);
  launch.blocks =
      dim3(static_cast<unsigned>(std::min(conv.tiles, most)), static_cast<unsigned>(columns));
  launch.threads = kNarrowThreads;
  launch.shared = static_cast<size_t>(NarrowSharedBytes(call));
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
