// SPDX-License-Identifier: MIT
// Convolution of bytes as an implicit GEMM on Hopper: as byte_gemm.cu, but products are made by
// warpgroups, which read both matrices from shared memory. Copies are those of other tiles.
#include "layers/convolution/cuda/tile_copiers.cuh"
#include "layers/quantize/cuda/byte_products.cuh"
#include "layers/quantize/cuda/byte_writer.cuh"

namespace oort::cuda {
namespace {

constexpr int kGroupTileRows = 128, kByteGroupThreads = 256, kWarpgroupRows = 64;

template <int columns_, int stages_, int resident_>
struct ByteGroupShape {
  static constexpr int kColumns = columns_, kStages = stages_, kResident = resident_;
  static constexpr int kWindowBytes = kGroupTileRows * kRowBytes;
  static constexpr int kStageBytes = (kGroupTileRows + columns_) * kRowBytes;
};

template <typename Shape, int grain>
__global__ void __launch_bounds__(kByteGroupThreads, Shape::kResident)
    ConvolveByteGroups(const __grid_constant__ ByteGemm conv) {
  constexpr int kStages = Shape::kStages, kSums = Shape::kColumns / 2;
  extern __shared__ unsigned char shared[];
  const GemmConv& gemm = conv.gemm;
  const uint32_t base = (SharedAddress(shared) + 1023) / 1024 * 1024;
  const int thread = threadIdx.x, lane = thread % 32;
  const int first_row = blockIdx.x / gemm.column_tiles * kGroupTileRows;
  const int first_column = blockIdx.x % gemm.column_tiles * Shape::kColumns;
  LaunchDependents();

  FilterCopier<uint8_t, Shape::kColumns, kByteGroupThreads> filters(
      gemm, static_cast<const uint8_t*>(gemm.weight), first_column, 0, thread);
  // No kernel writes the filters, so they are fetched while the preceding kernel still runs.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < gemm.steps) filters.Copy(base + s * Shape::kStageBytes + Shape::kWindowBytes);
  }
  WindowCopier<uint8_t, grain, kGroupTileRows, kByteGroupThreads, false> windows(
      gemm, static_cast<const uint8_t*>(gemm.in), first_row, 0, thread);
  const int lane_filter = first_column + lane % 4 * kLaneFilters;
  int sums[kSums];
#pragma unroll
  for (int part = 0; part < Shape::kColumns / kFilterGroup; ++part) {
    alignas(16) int starts[kLaneFilters];
    ByteWriter::LoadStarts(conv, lane_filter + part * kFilterGroup, 0, starts);
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      const int at = part * 16 + q / 2 * 4 + q % 2;
      sums[at] = sums[at + 2] = starts[q];
    }
  }
  WaitForPredecessor();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < gemm.steps) windows.Copy(base + s * Shape::kStageBytes);
    CommitCopies();
  }

  const uint32_t group_rows = thread / 128 * kWarpgroupRows * kRowBytes;
  int stage = 0, next = kStages - 1;
  for (int step = 0; step < gemm.steps; ++step) {
    WaitForCopies<kStages - 2>();
    PublishShared();
    WaitForProducts<0>();  // of the step before, whose matrices are written next
    HoldByteSums(sums);
    __syncthreads();
    const uint32_t matrices = base + stage * Shape::kStageBytes;
    const uint64_t a = MatrixAt(matrices + group_rows);
    const uint64_t b = MatrixAt(matrices + Shape::kWindowBytes);
    BeginProducts();
#pragma unroll
    for (int k = 0; k < kRowBytes / 32; ++k) MultiplyByteRows(sums, a + 2 * k, b + 2 * k);
    CommitProducts();
    HoldByteSums(sums);
    if (step + kStages - 1 < gemm.steps) {
      const uint32_t ahead = base + next * Shape::kStageBytes;
      filters.Copy(ahead + Shape::kWindowBytes);
      windows.Copy(ahead);
    }
    CommitCopies();
    stage = stage + 1 == kStages ? 0 : stage + 1;
    next = next + 1 == kStages ? 0 : next + 1;
  }
  WaitForProducts<0>();
  HoldByteSums(sums);

  const int row = first_row + thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int part = 0; part < Shape::kColumns / kFilterGroup; ++part) {
    const ByteWriter writer(conv, lane_filter + part * kFilterGroup, 0);
    const uint2 addends[2] = {writer.Addend(row), writer.Addend(row + 8)};
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      int values[kLaneFilters];
#pragma unroll
      for (int q = 0; q < kLaneFilters; ++q) {
        values[q] = sums[part * 16 + q / 2 * 4 + piece * 2 + q % 2];
      }
      writer.WritePlain(row + piece * 8, values, addends[piece]);
    }
  }
}

template <typename Shape, bool small_grains>
ByteGemmKernel MakeByteGroupKernel() {
  const void* small = nullptr;
  if constexpr (small_grains) {
    small = reinterpret_cast<const void*>(&ConvolveByteGroups<Shape, 8>);
  }
  return {{kGroupTileRows, Shape::kColumns},
          kByteGroupThreads,
          Shape::kStages,
          Shape::kStageBytes,
          0,
          reinterpret_cast<const void*>(&ConvolveByteGroups<Shape, 16>),
          small,
          nullptr,
          true};
}

}  // namespace

std::span<const ByteGemmKernel> ByteGroupKernels() {
  static const ByteGemmKernel kKernels[] = {
      MakeByteGroupKernel<ByteGroupShape<128, 3, 2>, false>(),
      MakeByteGroupKernel<ByteGroupShape<128, 6, 1>, false>(),
      MakeByteGroupKernel<ByteGroupShape<64, 4, 2>, true>(),
  };
  return kKernels;
}

}  // namespace oort::cuda
