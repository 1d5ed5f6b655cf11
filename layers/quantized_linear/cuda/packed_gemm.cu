// SPDX-License-Identifier: MIT
// A GEMM that dequantizes weights in registers. A thread block computes 16 strips of the weights by
// up to 128 rows of x and walks over the columns in steps of 64; a warp has two of the strips.
// Asynchronous copies bring records and rows through a ring in shared memory.
#include "layers/quantized_linear/cuda/packed_gemm.h"

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "cuda/tiles.h"
#include "layers/quantized_linear/cuda/packed_tiles.h"

namespace oort::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kStripsEach = 2;  // of a warp
constexpr int kBlockStrips = kPackedBlockStrips;
static_assert(kBlockStrips == kWarps * kStripsEach);
constexpr int kStages = 4;
constexpr int kStepBytes = kStepColumns * 2;  // of a row of x
constexpr int kPieceBytes = 16;

/// How records are laid out, known when compiling.
template <bool kFour, typename Scale, bool kMinimum, bool kByChunk>
struct Packing {
  using ScaleType = Scale;
  static constexpr bool kNibbles = kFour, kHasMinimum = kMinimum, kChunkScales = kByChunk;
  static constexpr int kWeightBytes = kFour ? 512 : 1024;
  static constexpr int kScaleBytes =
      kStripRows * (kByChunk ? kChunksPerStep : 1) * static_cast<int>(sizeof(Scale));
  static constexpr int kRecordBytes = kWeightBytes + kScaleBytes * (kMinimum ? 2 : 1);
};

template <typename P, int kTiles>
struct Stage {
  static constexpr int kRows = kTiles * 8;
  static constexpr int kWeights = kBlockStrips * P::kRecordBytes, kX = kRows * kStepBytes;
  static constexpr int kBytes = kWeights + kX;
};

/// Where a piece of a row of x lies in its step. Odd rows begin in the other half, so that the
/// eight lanes that read together (two rows) hit all banks.
__device__ __forceinline__ int PlaceOfX(int row, int piece) {
  return row * kStepBytes + (piece ^ (row % 2 * 4)) * kPieceBytes;
}

/// Begins to copy one step of the block's strips and rows.
template <typename P, int kTiles>
__device__ __forceinline__ void FetchStep(const PackedGemmProduct& p, int first_strip,
                                          int first_row, int step, uint32_t to) {
  constexpr int kPieces = P::kRecordBytes / kPieceBytes;
  static_assert(P::kRecordBytes % kPieceBytes == 0);
  const char* const records = static_cast<const char*>(p.weights.data);
  for (int i = threadIdx.x; i < kBlockStrips * kPieces; i += kThreads) {
    const int strip = i / kPieces, known = min(first_strip + strip, p.weights.strips - 1);
    const int64_t record = static_cast<int64_t>(known) * p.weights.steps + step;
    CopyAsync16(to + i * kPieceBytes,
                records + record * P::kRecordBytes + (i % kPieces) * kPieceBytes);
  }
  constexpr int kPiecesOfRow = kStepBytes / kPieceBytes;
  const uint32_t x = to + Stage<P, kTiles>::kWeights;
  for (int i = threadIdx.x; i < kTiles * 8 * kPiecesOfRow; i += kThreads) {
    const int row = i / kPiecesOfRow, piece = i % kPiecesOfRow;
    const int known = min(first_row + row, p.rows - 1);  // nobody reads what others stand for
    CopyAsync16(x + PlaceOfX(row, piece), static_cast<const __half*>(p.x) +
                                              known * p.weights.row_elements + step * kStepColumns +
                                              piece * (kPieceBytes / 2));
  }
}

/// The weights of a lane in a chunk of a record.
template <typename P>
__device__ __forceinline__ void Unpack(uint32_t record, int chunk, __half2 offset,
                                       uint32_t (&tiles)[2][4]) {
  using Scale = typename P::ScaleType;
  const uint32_t at = record + P::kWeightBytes;
  RowScale<Scale> scale[2], minimum[2] = {};
  const PackedScales places = PlacesOfScales<Scale>(P::kChunkScales);
  LoadScales<Scale>(at, places, chunk, scale);
  if constexpr (P::kHasMinimum) LoadScales<Scale>(at + P::kScaleBytes, places, chunk, minimum);
  UnpackTiles<P::kNibbles, Scale>(LoadPackedWords<P::kNibbles>(record, chunk), chunk, offset, scale,
                                  minimum, tiles);
}

template <int kTiles>
using WarpSums = float[kStripsEach][kTiles][4];

template <typename P, int kTiles>
__device__ __forceinline__ void MultiplyStep(uint32_t stage, __half2 offset,
                                             WarpSums<kTiles>& sums) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  const uint32_t records = stage + warp * kStripsEach * P::kRecordBytes;
  const uint32_t x = stage + Stage<P, kTiles>::kWeights;
#pragma unroll
  for (int chunk = 0; chunk < kChunksPerStep; ++chunk) {
    uint32_t weights[kStripsEach][2][4];
#pragma unroll
    for (int s = 0; s < kStripsEach; ++s) {
      Unpack<P>(records + s * P::kRecordBytes, chunk, offset, weights[s]);
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 b = LoadShared16(x + PlaceOfX(tile * 8 + g, chunk * 4 + t));
#pragma unroll
      for (int s = 0; s < kStripsEach; ++s) {
        MultiplyTile<false>(sums[s][tile], weights[s][0], b.x, b.y);
        MultiplyTile<false>(sums[s][tile], weights[s][1], b.z, b.w);
      }
    }
  }
}

/// Writes the results of a lane: rows g and g + 8 of its strips, for rows 2t and 2t + 1 of each
/// tile of x.
template <int kTiles>
__device__ __forceinline__ void StoreSums(const PackedGemmProduct& p, int first_strip,
                                          int first_row, const WarpSums<kTiles>& sums) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int s = 0; s < kStripsEach; ++s) {
    int part = 0, strip = first_strip + threadIdx.x / 32 * kStripsEach + s;
    if (strip >= p.weights.strips) return;
    while (part + 1 < p.parts && strip * kStripRows >= p.part_rows[part]) {
      strip -= (p.part_rows[part] + kStripRows - 1) / kStripRows;
      ++part;
    }
    const int width = p.part_rows[part];
    float* const y = p.y[part] + static_cast<int64_t>(blockIdx.z) * p.rows * width;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = strip * kStripRows + g + i / 2 * 8,
                  row = first_row + tile * 8 + 2 * t + i % 2;
        if (row < p.rows && column < width) {
          y[static_cast<int64_t>(row) * width + column] = sums[s][tile][i];
        }
      }
    }
  }
}

template <typename P, int kTiles>
__global__ void __launch_bounds__(kThreads, kTiles > 8 ? 1 : 2)
    PackedRowsKernel(const __grid_constant__ PackedGemmProduct p) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kBytes = Stage<P, kTiles>::kBytes;
  const uint32_t stages = SharedAddress(memory);
  const int first_strip = blockIdx.x * kBlockStrips, first_row = blockIdx.y * kTiles * 8;
  const int steps = p.weights.steps;
  const int first = static_cast<int>(static_cast<int64_t>(steps) * blockIdx.z / p.splits);
  const int end = static_cast<int>(static_cast<int64_t>(steps) * (blockIdx.z + 1) / p.splits);
  const __half2 offset = PackedOffset(P::kNibbles, p.weights.zero_based);
  WarpSums<kTiles> sums = {};
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (first + i < end) {
      FetchStep<P, kTiles>(p, first_strip, first_row, first + i, stages + i * kBytes);
    }
    CommitCopies();
  }
  int from = 0, to = kStages - 1;
  for (int step = first; step < end; ++step) {
    WaitForCopies<kStages - 2>();
    __syncthreads();  // all see the step, and nobody reads the stage that is filled next
    if (step + kStages - 1 < end) {
      FetchStep<P, kTiles>(p, first_strip, first_row, step + kStages - 1, stages + to * kBytes);
    }
    CommitCopies();
    MultiplyStep<P, kTiles>(stages + from * kBytes, offset, sums);
    from = from + 1 == kStages ? 0 : from + 1;
    to = to + 1 == kStages ? 0 : to + 1;
  }
  StoreSums<kTiles>(p, first_strip, first_row, sums);
}

template <typename P, int kTiles>
void LaunchTiles(const Stream& stream, const PackedGemmProduct& p) {
  const Grid grid{dim3(BlocksFor(p.weights.strips, kBlockStrips), BlocksFor(p.rows, kTiles * 8),
                       static_cast<unsigned>(p.splits)),
                  dim3(kThreads), static_cast<size_t>(kStages) * Stage<P, kTiles>::kBytes};
  Launch(stream, grid, PackedRowsKernel<P, kTiles>, p);
}

template <typename P>
void LaunchPacking(const Stream& stream, const PackedGemmProduct& p) {
  switch (PackedGemmTiles(p.rows)) {
    case 4: return LaunchTiles<P, 4>(stream, p);
    case 8: return LaunchTiles<P, 8>(stream, p);
    default: return LaunchTiles<P, 16>(stream, p);
  }
}

template <bool kFour, typename Scale, bool kMinimum>
void LaunchScales(const Stream& stream, const PackedGemmProduct& p) {
  if (p.weights.chunk_scales) {
    LaunchPacking<Packing<kFour, Scale, kMinimum, true>>(stream, p);
  } else {
    LaunchPacking<Packing<kFour, Scale, kMinimum, false>>(stream, p);
  }
}

template <bool kFour>
void LaunchFormat(const Stream& stream, const PackedGemmProduct& p) {
  if (p.weights.f32_scales) {
    p.weights.has_minimum ? LaunchScales<kFour, float, true>(stream, p)
                          : LaunchScales<kFour, float, false>(stream, p);
  } else {
    p.weights.has_minimum ? LaunchScales<kFour, __half, true>(stream, p)
                          : LaunchScales<kFour, __half, false>(stream, p);
  }
}

}  // namespace

void RunPackedGemm(const Stream& stream, const PackedGemmProduct& product) {
  if (product.weights.format == DeviceFormat::kInt4) {
    LaunchFormat<true>(stream, product);
  } else {
    LaunchFormat<false>(stream, product);
  }
}

}  // namespace oort::cuda
