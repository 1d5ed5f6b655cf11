// SPDX-License-Identifier: MIT
// Convolution of bytes as an implicit GEMM on Hopper: as byte_gemm.cu, but products are made by
// warpgroups, which read both matrices from shared memory. Copies are those of other tiles.
#include "cuda/warpgroup.cuh"
#include "layers/convolution/cuda/tile_copiers.cuh"
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

/// Adds the product of 64 rows of u8 and 128 columns of i8, 32 bytes deep, of matrices given by
/// MatrixAt. Lanes have the same sums as in MultiplyRows.
__device__ inline void MultiplyByteRows(int (&s)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.s8 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, %64, %65, add;\n}\n"
      : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]),
        "+r"(s[7]), "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]),
        "+r"(s[14]), "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]),
        "+r"(s[21]), "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]),
        "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]),
        "+r"(s[35]), "+r"(s[36]), "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]),
        "+r"(s[42]), "+r"(s[43]), "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47]), "+r"(s[48]),
        "+r"(s[49]), "+r"(s[50]), "+r"(s[51]), "+r"(s[52]), "+r"(s[53]), "+r"(s[54]), "+r"(s[55]),
        "+r"(s[56]), "+r"(s[57]), "+r"(s[58]), "+r"(s[59]), "+r"(s[60]), "+r"(s[61]), "+r"(s[62]),
        "+r"(s[63])
      : "l"(a), "l"(b), "r"(1));
}
/// The same for 64 columns.
__device__ inline void MultiplyByteRows(int (&s)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, %32, %33, add;\n}\n"
      : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]),
        "+r"(s[7]), "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]),
        "+r"(s[14]), "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]),
        "+r"(s[21]), "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]),
        "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31])
      : "l"(a), "l"(b), "r"(1));
}

/// Keeps the compiler from moving sums while products are on their way.
template <int count>
__device__ void HoldByteSums(int (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

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
