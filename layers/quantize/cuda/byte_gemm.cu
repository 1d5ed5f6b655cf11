// SPDX-License-Identifier: MIT
// Convolution of bytes as an implicit GEMM on tensor cores: as layers/convolution/cuda's
// implicit_gemm.cuh, whose copies it uses. Results are made in the registers in which the sums are:
// filters are stored so that a lane has 8 neighbours of each of its rows.
#include <cooperative_groups.h>

#include "layers/convolution/cuda/tile_copiers.cuh"
#include "layers/quantize/cuda/byte_epilogue.cuh"
#include "layers/quantize/cuda/byte_gemm.h"

namespace oort::cuda {
namespace {

constexpr int kLaneFilters = 8;

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

/// Taps of an axis from `begin` up to `end` that see no padding.
struct SeenTaps {
  int begin, end;
  __device__ SeenTaps(const ConvWalk& walk, int i) {
    const int start = i * walk.stride - walk.pad;
    begin = start < 0 ? min((-start + walk.dilation - 1) / walk.dilation, walk.kernel) : 0;
    const int left = start < walk.in ? (walk.in - start + walk.dilation - 1) / walk.dilation : 0;
    end = max(begin, min(walk.kernel, left));
  }
  __device__ bool All(const ConvWalk& walk) const { return begin == 0 && end == walk.kernel; }
};

/// Makes results of the sums of 8 neighbouring filters.
class ByteWriter {
 public:
  __device__ ByteWriter(const ByteGemm& conv, int first_filter, int group)
      : conv_(conv),
        left_(conv.filters - first_filter),
        filter_(group * conv.filters + first_filter),
        padded_(group * conv.gemm.filters + first_filter) {
    if (left_ <= 0) return;
    LoadPiece(scale_, conv.epilogue.scale + padded_);
    LoadPiece(bias_, conv.epilogue.bias + padded_);
  }

  /// What the sums begin with; zeros behind the last filter.
  __device__ static void LoadStarts(const ByteGemm& conv, int first_filter, int group,
                                    int (&starts)[kLaneFilters]) {
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) starts[q] = 0;
    if (first_filter >= conv.filters) return;
    LoadPiece(starts, conv.epilogue.starts + group * conv.gemm.filters + first_filter);
  }

  __device__ bool IsHere(int row) const { return left_ > 0 && row < conv_.gemm.rows; }

  __device__ uint2 Addend(int row) const {
    uint2 addend = make_uint2(0, 0);
    if (conv_.epilogue.addend == nullptr || !IsHere(row)) return addend;
    const uint8_t* from = static_cast<const uint8_t*>(conv_.epilogue.addend) + PlaceOf(row);
    if (conv_.whole_pieces) return *reinterpret_cast<const uint2*>(from);
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      if (q < left_) (q < 4 ? addend.x : addend.y) |= uint32_t{from[q]} << (q % 4 * 8);
    }
    return addend;
  }

  /// The same for what ByteGemm calls plain, with few instructions: bytes are counted from the
  /// least one of the result, which makes them u8, and saturate as they are packed.
  __device__ void WritePlain(int row, const int (&sums)[kLaneFilters], const uint2& addend) const {
    if (!IsHere(row)) return;
    const ByteEpilogue& epilogue = conv_.epilogue;
    int steps[kLaneFilters];
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      float value = __fmaf_rn(__int2float_rn(sums[q]), scale_[q], bias_[q]);
      if (epilogue.addend != nullptr) {
        value = __fmaf_rn(PlainAddend(q < 4 ? addend.x : addend.y, q % 4), epilogue.addend_scale,
                          value);
      }
      value = fminf(value, epilogue.high);
      if (conv_.limits_below) value = fmaxf(value, epilogue.low);
      steps[q] = __float2int_rn(value) + conv_.plain_zero_point;
    }
    const uint2 words =
        make_uint2(PackSteps(steps[0], steps[1], steps[2], steps[3]) ^ conv_.plain_flip,
                   PackSteps(steps[4], steps[5], steps[6], steps[7]) ^ conv_.plain_flip);
    uint8_t* out = static_cast<uint8_t*>(conv_.gemm.out) + PlaceOf(row);
    *reinterpret_cast<uint2*>(out) = words;
  }

  __device__ void Write(int row, int (&sums)[kLaneFilters], const uint2& addend) const {
    if (!IsHere(row)) return;
    if (conv_.padding.zero_point != 0) AddPadding(row, sums);
    float values[kLaneFilters];
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      const uint32_t byte = (q < 4 ? addend.x : addend.y) >> (q % 4 * 8);
      values[q] = FinishSum(conv_.epilogue, sums[q], scale_[q], bias_[q], byte);
    }
    if (conv_.epilogue.bytes) {
      StoreBytes(row, values);
    } else {
      StoreNumbers(row, values);
    }
  }

 private:
  /// Bytes 0 to 255 as they are packed from numbers that may be less or more.
  __device__ static uint32_t PackSteps(int a, int b, int c, int d) {
    uint32_t high, word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(d), "r"(c));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(high));
    return word;
  }

  /// A byte of an addend as a number: the last one of the bits of 2^23 and more.
  __device__ float PlainAddend(uint32_t word, int byte) const {
    const uint32_t bits = __byte_perm(word ^ conv_.addend_flip, 0x4b000000u, 0x7650 + byte);
    return __fsub_rn(__uint_as_float(bits), conv_.addend_origin);
  }

  template <typename T>
  __device__ static void LoadPiece(T (&values)[kLaneFilters], const T* from) {
    *reinterpret_cast<uint4*>(values) = *reinterpret_cast<const uint4*>(from);
    *reinterpret_cast<uint4*>(values + 4) = *reinterpret_cast<const uint4*>(from + 4);
  }

  __device__ int64_t PlaceOf(int row) const {
    return static_cast<int64_t>(row) * conv_.gemm.out_pixel + filter_;
  }

  /// Zeros stood for padding, from which `starts` took the zero point.
  __device__ void AddPadding(int row, int (&sums)[kLaneFilters]) const {
    const BytePadding& padding = conv_.padding;
    const int pixel = row % conv_.gemm.out_plane;
    const SeenTaps down(padding.height, pixel / conv_.gemm.out_width);
    const SeenTaps along(padding.width, pixel % conv_.gemm.out_width);
    if (down.All(padding.height) && along.All(padding.width)) return;
    AddSums(sums, padding.height.kernel, padding.width.kernel, padding.zero_point);
    AddSums(sums, down.end, along.end, -padding.zero_point);
    AddSums(sums, down.begin, along.end, padding.zero_point);
    AddSums(sums, down.end, along.begin, padding.zero_point);
    AddSums(sums, down.begin, along.begin, -padding.zero_point);
  }

  __device__ void AddSums(int (&sums)[kLaneFilters], int row, int column, int factor) const {
    const BytePadding& padding = conv_.padding;
    if (row == 0 || column == 0) return;
    int weights[kLaneFilters];
    LoadPiece(weights, padding.weight_sums +
                           static_cast<int64_t>(row * (padding.width.kernel + 1) + column) *
                               padding.filters +
                           padded_);
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) sums[q] += factor * weights[q];
  }

  __device__ void StoreBytes(int row, const float (&values)[kLaneFilters]) const {
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      words[q / 4] |= ByteOf(conv_.epilogue, values[q]) << (q % 4 * 8);
    }
    uint8_t* out = static_cast<uint8_t*>(conv_.gemm.out) + PlaceOf(row);
    if (conv_.whole_pieces) {
      *reinterpret_cast<uint2*>(out) = make_uint2(words[0], words[1]);
      return;
    }
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      if (q < left_) out[q] = static_cast<uint8_t>(words[q / 4] >> (q % 4 * 8));
    }
  }

  __device__ void StoreNumbers(int row, const float (&values)[kLaneFilters]) const {
    float* out = static_cast<float*>(conv_.gemm.out) + PlaceOf(row);
    if (conv_.whole_pieces) {
      reinterpret_cast<float4*>(out)[0] = make_float4(values[0], values[1], values[2], values[3]);
      reinterpret_cast<float4*>(out)[1] = make_float4(values[4], values[5], values[6], values[7]);
      return;
    }
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      if (q < left_) out[q] = values[q];
    }
  }

  const ByteGemm& conv_;
  int left_, filter_, padded_;  // filters from here on, and the place of the first
  alignas(16) float scale_[kLaneFilters];
  alignas(16) float bias_[kLaneFilters];
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
      MakeByteKernel<ByteShape<64, 32, 16, 6, 3>>(),
      MakeByteKernel<ByteShape<32, 64, 16, 6, 3>>(),
  };
  return kKernels;
}

}  // namespace oort::cuda
