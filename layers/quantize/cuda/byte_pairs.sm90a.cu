// SPDX-License-Identifier: MIT
// The first layer of a network on Hopper: images of four channels of bytes, walked two pixels at a
// time. A row of a window is the depth of one product of a warpgroup, so what is under the windows
// goes from memory to registers as the tensor cores want it, and is not copied.
#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/kernel_tools.h"
#include "cuda/tiles.h"
#include "cuda/warpgroup.cuh"
#include "layers/convolution/cuda/warp_tile.cuh"
#include "layers/quantize/cuda/byte_pairs.h"

namespace oort::cuda {
namespace {

constexpr int kPairThreads = 128, kPairBlocks = 4;  // of a multiprocessor
constexpr int kPieceRows = 16;                      // pixels of a warp
constexpr int kPairColumns = 64, kPairSums = kPairColumns / 2;
constexpr int kPairBytes = 8, kWindowPairs = 4, kWindowRows = 7;
constexpr int kMatrixBytes = 128, kMatrices = 2;  // of a filter's row, and how many
constexpr int kLaneOutputs = 8;

/// Adds the product of 16 rows of u8 of each warp, which are in registers as in mma.m16n8k32, and
/// 64 columns of i8 of a matrix given by MatrixAt, 32 bytes deep.
__device__ inline void MultiplyByteTiles(int (&s)[kPairSums], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, {%32,%33,%34,%35}, %36, add;\n}\n"
      : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]),
        "+r"(s[7]), "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]),
        "+r"(s[14]), "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]),
        "+r"(s[21]), "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]),
        "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

/// What a warp computes of a tile: pixels that follow each other along a line.
struct PairPiece {
  int image, y, x;
  bool here;
  __device__ PairPiece(const BytePairs& conv, int index) {
    here = index < conv.pieces;
    const int line = index / conv.line_pieces;
    x = index % conv.line_pieces * kPieceRows;
    y = line % conv.out_height;
    image = line / conv.out_height;
  }
};

using PairWindows = uint32_t[kWindowRows][4];

/// What is under the windows of the pixels of this lane; zeros for padding.
__device__ void LoadWindows(const BytePairs& conv, const PairPiece& piece, int lane,
                            PairWindows& windows) {
  const int top = piece.y * conv.stride_down - conv.pad_top;
  const int left = piece.x + lane / 4 + lane % 4 / 2 - conv.pad_left;
  const auto* in = static_cast<const unsigned char*>(conv.in) + lane % 2 * 4;
#pragma unroll
  for (int r = 0; r < kWindowRows; ++r) {
    const int y = top + r;
    const bool seen = piece.here && static_cast<unsigned>(y) < static_cast<unsigned>(conv.height);
    const int line = (piece.image * conv.height + y) * conv.width;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int x = left + i % 2 * 8 + i / 2 * 2;
      const bool valid = seen && static_cast<unsigned>(x) < static_cast<unsigned>(conv.width);
      windows[r][i] =
          valid ? *reinterpret_cast<const uint32_t*>(in + int64_t{line + x} * kPairBytes) : 0;
    }
  }
}

/// Filters of this block as two matrices in shared memory.
__device__ void LoadFilters(const BytePairs& conv, uint32_t to, int first) {
  constexpr int kPieces = kMatrices * kMatrixBytes / 16;
  for (int i = threadIdx.x; i < kPairColumns * kPieces; i += kPairThreads) {
    const int filter = i / kPieces, piece = i % kPieces;
    const bool valid = first + filter < conv.padded_filters && piece * 16 < conv.depth;
    const auto* from = static_cast<const unsigned char*>(conv.weight) +
                       (valid ? int64_t{first + filter} * conv.depth + piece * 16 : 0);
    CopyOrZero<16, false>(to + piece / 8 * kPairColumns * kMatrixBytes + PieceAt(filter, piece % 8),
                          from, valid);
  }
  CommitCopies();
}

template <typename T>
__device__ void LoadNumbers(T (&values)[kLaneOutputs], const T* from) {
  reinterpret_cast<uint4*>(values)[0] = reinterpret_cast<const uint4*>(from)[0];
  reinterpret_cast<uint4*>(values)[1] = reinterpret_cast<const uint4*>(from)[1];
}

/// Results of the pixels of this lane and 8 filters.
__device__ void WritePieces(const BytePairs& conv, const PairPiece& piece, int lane, int filter,
                            const int* sums) {
  alignas(16) float scale[kLaneOutputs];
  alignas(16) float bias[kLaneOutputs];
  LoadNumbers(scale, conv.scale + filter);
  LoadNumbers(bias, conv.bias + filter);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int x = piece.x + lane / 4 + half * 8;
    uint32_t bits[kLaneOutputs];
#pragma unroll
    for (int q = 0; q < kLaneOutputs; ++q) {
      const int sum = sums[q / 2 * 4 + half * 2 + q % 2];
      bits[q] = ByteBits(conv.rounding, __fmaf_rn(__int2float_rn(sum), scale[q], bias[q]));
    }
    if (!piece.here || x >= conv.out_width) continue;
    const int64_t pixel = (int64_t{piece.image} * conv.out_height + piece.y) * conv.out_width + x;
    *reinterpret_cast<uint2*>(static_cast<unsigned char*>(conv.out) + pixel * conv.out_pixel +
                              filter) = make_uint2(WordOf(bits), WordOf(bits + 4));
  }
}

__global__ void __launch_bounds__(kPairThreads, kPairBlocks)
    ConvolvePairs(const __grid_constant__ BytePairs conv) {
  __shared__ __align__(1024) unsigned char shared[kMatrices * kPairColumns * kMatrixBytes];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = blockIdx.y * kPairColumns;
  LaunchDependents();
  LoadFilters(conv, SharedAddress(shared), first);
  WaitForCopies<0>();
  PublishShared();
  __syncthreads();
  WaitForPredecessor();
  const uint64_t filters = MatrixAt(SharedAddress(shared));
  PairWindows windows, ahead;
  int tile = blockIdx.x;
  LoadWindows(conv, PairPiece(conv, tile * 4 + warp), lane, windows);
  for (; tile * 4 < conv.pieces; tile += gridDim.x) {
    const PairPiece piece(conv, tile * 4 + warp);
    LoadWindows(conv, PairPiece(conv, (tile + static_cast<int>(gridDim.x)) * 4 + warp), lane,
                ahead);
    int sums[kPairSums];
#pragma unroll
    for (int part = 0; part < kPairColumns / kFilterGroup; ++part) {
      const int filter = first + part * kFilterGroup + lane % 4 * kLaneOutputs;
      alignas(16) int starts[kLaneOutputs] = {};
      if (filter < conv.filters) LoadNumbers(starts, conv.starts + filter);
#pragma unroll
      for (int q = 0; q < kLaneOutputs; ++q) {
        const int at = part * 16 + q / 2 * 4 + q % 2;
        sums[at] = sums[at + 2] = starts[q];
      }
    }
#pragma unroll
    for (int i = 0; i < kPairSums; ++i) asm volatile("" : "+r"(sums[i])::"memory");
    BeginProducts();
#pragma unroll
    for (int r = 0; r < kWindowRows; ++r) {
      MultiplyByteTiles(sums, windows[r],
                        filters + (r / 4 * kPairColumns * kMatrixBytes >> 4) + r % 4 * 2);
    }
    CommitProducts();
    WaitForProducts<0>();
#pragma unroll
    for (int i = 0; i < kPairSums; ++i) asm volatile("" : "+r"(sums[i])::"memory");
#pragma unroll
    for (int part = 0; part < kPairColumns / kFilterGroup; ++part) {
      const int filter = first + part * kFilterGroup + lane % 4 * kLaneOutputs;
      if (filter < conv.filters) WritePieces(conv, piece, lane, filter, sums + part * 16);
    }
#pragma unroll
    for (int r = 0; r < kWindowRows; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) windows[r][i] = ahead[r][i];
    }
  }
}

}  // namespace

ConvTile BytePairTile() { return {4 * kPieceRows, kPairColumns}; }

bool ConvolvesBytePairs(const ByteConvCall& call) {
  constexpr int kMostDepth = kMatrices * kMatrixBytes;
  return call.groups == 1 && !call.in_signed && call.epilogue.bytes && !call.epilogue.activated &&
         call.epilogue.addend == nullptr && call.padding.zero_point == 0 &&
         call.channels == kPairBytes && call.in_pixel == kPairBytes &&
         call.width.kernel == kWindowPairs && call.width.stride == 1 && call.width.dilation == 1 &&
         call.height.kernel == kWindowRows && call.height.dilation == 1 &&
         call.depth <= kMostDepth && call.filters % 8 == 0 && call.out_pixel % 8 == 0 &&
         reinterpret_cast<uintptr_t>(call.in) % 4 == 0 &&
         reinterpret_cast<uintptr_t>(call.out) % 8 == 0;
}

void ConvolveBytePairs(const Stream& stream, const ByteConvCall& call, bool overlap) {
  BytePairs conv = {};
  conv.in = call.in;
  conv.weight = call.weight;
  conv.out = call.out;
  conv.scale = call.epilogue.scale;
  conv.bias = call.epilogue.bias;
  conv.starts = call.epilogue.starts;
  conv.rounding = ByteRounding::Of(call.epilogue);
  conv.depth = static_cast<int>(call.depth);
  conv.filters = call.filters;
  conv.padded_filters = call.padded_filters();
  conv.height = call.height.in;
  conv.width = call.width.in;
  conv.out_height = call.height.out;
  conv.out_width = call.width.out;
  conv.out_pixel = static_cast<int>(call.out_pixel);
  conv.stride_down = call.height.stride;
  conv.pad_top = call.height.pad;
  conv.pad_left = call.width.pad;
  conv.line_pieces = (call.width.out + kPieceRows - 1) / kPieceRows;
  conv.pieces = static_cast<int>(call.batch) * call.height.out * conv.line_pieces;
  const int tiles = (conv.pieces + 3) / 4;

  KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&ConvolvePairs);
  launch.blocks = dim3(static_cast<unsigned>(std::min(
                           tiles, TraitsOf(stream.device()).multiprocessors * kPairBlocks)),
                       static_cast<unsigned>((call.filters + kPairColumns - 1) / kPairColumns));
  launch.threads = kPairThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
