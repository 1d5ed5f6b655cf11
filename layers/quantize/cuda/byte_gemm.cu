// SPDX-License-Identifier: MIT
// Convolution of bytes as an implicit GEMM on tensor cores: as layers/convolution/cuda's
// implicit_gemm.cuh, whose copies it uses. Results are made in the registers in which the sums are:
// filters are stored so that a lane has 8 neighbours of each of its rows.
#include <cooperative_groups.h>

#include "layers/convolution/cuda/tile_copiers.cuh"
#include "layers/quantize/cuda/byte_gemm.h"
#include "layers/quantize/cuda/byte_writer.cuh"

namespace oort::cuda {
namespace {

/// A block of warps of `warp_rows` by kFilterGroup.
template <int rows_, int columns_, int warp_rows_, int stages_, int resident_>
struct ByteShape {
  static constexpr int kRows = rows_, kColumns = columns_, kWarpRows = warp_rows_;
  static constexpr int kStages = stages_, kResident = resident_;
  static constexpr int kThreads = rows_ / warp_rows_ * (columns_ / kFilterGroup) * 32;
  static constexpr int kWindowBytes = rows_ * kRowBytes;
  static constexpr int kStageBytes = (rows_ + columns_) * kRowBytes;
  static constexpr int kPieces = warp_rows_ / 8;  // rows of a lane
  static constexpr int kSumBytes = rows_ * columns_ * 4;
};

/// 16 by 32 bytes times 32 by 8.
__device__ inline void MultiplyBytes(int (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The sums of a warp. Lane l has of rows 16 i + l / 4 and 8 below filters 8 (l % 4) to 8 (l % 4) +
/// 7 of the group.
template <int rows>
class ByteSums {
 public:
  static constexpr int kDown = rows / 16, kSteps = kRowBytes / 32;

  /// Sums of each row begin with these.
  __device__ void Begin(const int (&starts)[kLaneFilters]) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int q = 0; q < kLaneFilters; ++q) {
        sums_[i][q / 2][q % 2] = sums_[i][q / 2][2 + q % 2] = starts[q];
      }
    }
  }

  __device__ void Add(uint32_t a, uint32_t b, uint32_t flip, int lane) {
    uint32_t left[2][kDown][4], right[2][2][4];
    Load(left[0], right[0], a, b, flip, lane, 0);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step + 1 < kSteps)
        Load(left[(step + 1) & 1], right[(step + 1) & 1], a, b, flip, lane, step + 1);
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint32_t(&words)[4] = right[step & 1][j / 2];
          MultiplyBytes(sums_[i][j], left[step & 1][i], words[j % 2 * 2], words[j % 2 * 2 + 1]);
        }
      }
    }
  }

  /// Those of row `piece` of the lane.
  __device__ void Take(int (&sums)[kLaneFilters], int piece) const {
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      sums[q] = sums_[piece / 2][q / 2][piece % 2 * 2 + q % 2];
    }
  }

 private:
  __device__ static void Load(uint32_t (&left)[kDown][4], uint32_t (&right)[2][4], uint32_t a,
                              uint32_t b, uint32_t flip, int lane, int step) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      LoadMatrices(left[i], a + PieceAt(16 * i + lane % 16, 2 * step + lane / 16));
#pragma unroll
      for (int word = 0; word < 4; ++word) left[i][word] ^= flip;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = 16 * j + lane % 8 + lane / 16 * 8;
      LoadMatrices(right[j], b + PieceAt(row, 2 * step + lane / 8 % 2));
    }
  }

  int sums_[kDown][4][4];
};

/// Sums in shared memory, from where a loop takes them row by row. Split-K reduction: each thread
/// has the same elements of a tile as its like in the other blocks of the cluster, and each block
/// writes every so many of these pieces.
template <typename Shape>
class ByteGatherer {
 public:
  __device__ ByteGatherer(int4* shared, int thread) : slots_(shared + thread) {}

  __device__ void Put(int piece, const int (&sums)[kLaneFilters]) {
    Slot(slots_, piece, 0) = make_int4(sums[0], sums[1], sums[2], sums[3]);
    Slot(slots_, piece, 1) = make_int4(sums[4], sums[5], sums[6], sums[7]);
  }

  __device__ void Gather(int piece, int splits, int (&sums)[kLaneFilters]) {
#if __CUDA_ARCH__ >= 900
    if (splits > 1) return GatherCluster(piece, splits, sums);
#endif
    const int4 x = Slot(slots_, piece, 0), y = Slot(slots_, piece, 1);
    const int own[kLaneFilters] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) sums[q] = own[q];
  }

 private:
#if __CUDA_ARCH__ >= 900
  __device__ void GatherCluster(int piece, int splits, int (&sums)[kLaneFilters]) {
    const auto cluster = cooperative_groups::this_cluster();
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) sums[q] = 0;
#pragma unroll 4
    for (int other = 0; other < splits; ++other) {
      int4* there = cluster.map_shared_rank(slots_, other);
      const int4 x = Slot(there, piece, 0), y = Slot(there, piece, 1);
      const int more[kLaneFilters] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
#pragma unroll
      for (int q = 0; q < kLaneFilters; ++q) sums[q] += more[q];
    }
  }
#endif

  __device__ static int4& Slot(int4* slots, int piece, int half) {
    return slots[(piece * 2 + half) * Shape::kThreads];
  }
  int4* slots_;
};

/// Waits for all blocks of a cluster; one alone waits for its threads.
__device__ inline void SyncSplits(int splits) {
#if __CUDA_ARCH__ >= 900
  if (splits > 1) return cooperative_groups::this_cluster().sync();
#endif
  __syncthreads();
}

template <typename Shape>
__device__ void GatherTile(const ByteGemm& conv, const ByteSums<Shape::kWarpRows>& sums,
                           const ByteWriter& writer, int row, int4* shared, int rank) {
  const int splits = conv.gemm.splits;
  ByteGatherer<Shape> gatherer(shared, threadIdx.x);
  WaitForCopies<0>();
  __syncthreads();  // nobody reads the matrices any more
#pragma unroll
  for (int piece = 0; piece < Shape::kPieces; ++piece) {
    int values[kLaneFilters];
    sums.Take(values, piece);
    gatherer.Put(piece, values);
  }
  SyncSplits(splits);
#pragma unroll 1
  for (int piece = rank; piece < Shape::kPieces; piece += splits) {
    const uint2 addend = writer.Addend(row + piece * 8);
    int values[kLaneFilters];
    gatherer.Gather(piece, splits, values);
    writer.Write(row + piece * 8, values, addend);
  }
  SyncSplits(splits);  // others read the sums of this block
}

template <typename Shape>
__device__ void WriteTile(const ByteSums<Shape::kWarpRows>& sums, const ByteWriter& writer,
                          int row) {
  uint2 addends[Shape::kPieces];
#pragma unroll
  for (int piece = 0; piece < Shape::kPieces; ++piece) {
    addends[piece] = writer.Addend(row + piece * 8);
  }
#pragma unroll
  for (int piece = 0; piece < Shape::kPieces; ++piece) {
    int values[kLaneFilters];
    sums.Take(values, piece);
    writer.WritePlain(row + piece * 8, values, addends[piece]);
  }
}

template <typename Shape, int grain>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kResident)
    ConvolveByteTile(const __grid_constant__ ByteGemm conv) {
  constexpr int kThreads = Shape::kThreads, kStages = Shape::kStages;
  extern __shared__ __align__(128) unsigned char shared[];
  const GemmConv& gemm = conv.gemm;
  const uint32_t base = SharedAddress(shared);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int group = blockIdx.z;
  const int tile = blockIdx.x / gemm.splits, rank = blockIdx.x % gemm.splits;
  const int first_row = tile / gemm.column_tiles * Shape::kRows;
  const int first_column = tile % gemm.column_tiles * Shape::kColumns;
  const int begin = gemm.steps * rank / gemm.splits, end = gemm.steps * (rank + 1) / gemm.splits;
  LaunchDependents();

  FilterCopier<uint8_t, Shape::kColumns, kThreads> filters(
      gemm,
      static_cast<const uint8_t*>(gemm.weight) +
          static_cast<int64_t>(group) * gemm.filters * gemm.depth,
      first_column, begin, thread);
  // No kernel writes the filters, so they are fetched while the preceding kernel still runs.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end) filters.Copy(base + s * Shape::kStageBytes + Shape::kWindowBytes);
  }
  WindowCopier<uint8_t, grain, Shape::kRows, kThreads, false> windows(
      gemm, static_cast<const uint8_t*>(gemm.in) + group * gemm.channels, first_row, begin, thread);
  WaitForPredecessor();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end) windows.Copy(base + s * Shape::kStageBytes);
    CommitCopies();
  }

  constexpr int kWarpsAlong = Shape::kColumns / kFilterGroup;
  const int warp_row = warp / kWarpsAlong * Shape::kWarpRows;
  const int warp_column = warp % kWarpsAlong * kFilterGroup;
  const int first_filter = first_column + warp_column + lane % 4 * kLaneFilters;
  ByteSums<Shape::kWarpRows> sums;
  {
    alignas(16) int starts[kLaneFilters] = {};
    if (rank == 0) ByteWriter::LoadStarts(conv, first_filter, group, starts);
    sums.Begin(starts);
  }
  int stage = 0, next = kStages - 1;
  for (int step = begin; step < end; ++step) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    const uint32_t ahead = base + next * Shape::kStageBytes;
    if (step + kStages - 1 < end) {
      filters.Copy(ahead + Shape::kWindowBytes);
      windows.Copy(ahead);
    }
    CommitCopies();
    const uint32_t matrices = base + stage * Shape::kStageBytes;
    sums.Add(matrices + warp_row * kRowBytes,
             matrices + Shape::kWindowBytes + warp_column * kRowBytes, conv.flip, lane);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    next = next + 1 == kStages ? 0 : next + 1;
  }

  const int row = first_row + warp_row + lane / 4;
  const ByteWriter writer(conv, first_filter, group);
  if (conv.plain && gemm.splits == 1) return WriteTile<Shape>(sums, writer, row);
  GatherTile<Shape>(conv, sums, writer, row, reinterpret_cast<int4*>(shared), rank);
}

template <typename Shape, int grain>
const void* ByteFunction() {
  return reinterpret_cast<const void*>(&ConvolveByteTile<Shape, grain>);
}

template <typename Shape>
ByteGemmKernel MakeByteKernel() {
  return {{Shape::kRows, Shape::kColumns},
          Shape::kThreads,
          Shape::kStages,
          Shape::kStageBytes,
          Shape::kSumBytes,
          ByteFunction<Shape, 16>(),
          nullptr,
          nullptr};
}

template <typename Shape>
ByteGemmKernel MakeByteKernelOfGrains() {
  ByteGemmKernel made = MakeByteKernel<Shape>();
  made.small = ByteFunction<Shape, 8>();
  made.words = ByteFunction<Shape, 4>();
  return made;
}

}  // namespace

std::span<const ByteGemmKernel> ByteGemmKernels() {
  static const ByteGemmKernel kKernels[] = {
      MakeByteKernel<ByteShape<128, 128, 64, 3, 2>>(),
      MakeByteKernelOfGrains<ByteShape<128, 64, 64, 4, 2>>(),
      MakeByteKernelOfGrains<ByteShape<64, 64, 32, 4, 3>>(),
      MakeByteKernel<ByteShape<32, 64, 16, 6, 3>>(),
      MakeByteKernel<ByteShape<64, 32, 16, 6, 3>>(),
  };
  return kKernels;
}

}  // namespace oort::cuda
