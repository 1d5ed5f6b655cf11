// SPDX-License-Identifier: MIT
// Convolution of bytes as an implicit GEMM on Hopper: a persistent, warp-specialized kernel, fed as
// bulk_conv.sm90a.cu. Results of bytes take as long to be made as the products take, so two
// warpgroups multiply tiles by turns: one makes its results while the other has the tensor cores.
#include "layers/convolution/cuda/bulk_pipeline.cuh"
#include "layers/quantize/cuda/byte_bulk.h"
#include "layers/quantize/cuda/byte_products.cuh"

namespace oort::cuda {
namespace {

constexpr int kTurns = kBulkGroups;
constexpr int kByteBulkThreads = (kBulkGroups + 1) * kGroupThreads;

template <int row_bytes, int columns, int stages, int parts>
struct ByteBulkShape : BulkLayout<1, row_bytes, columns, stages, parts, 1> {
  using Layout = BulkLayout<1, row_bytes, columns, stages, parts, 1>;
  static constexpr int kSharedBytes = Layout::kSharedBytes + kTurns * 8;
  static constexpr bool kMovesRegisters = columns > 64;  // two halves of 128 sums are many
  // So that a part is always of the same warpgroup, which waits for each of its phases.
  static_assert(parts % kBulkGroups == 0);
};

__device__ inline uint2 LoadWords(uint32_t from) {
  uint2 words;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(from));
  return words;
}
/// Other loads may pass it: who reads the words waits for a barrier.
__device__ inline void StoreWords(uint32_t to, uint32_t x, uint32_t y) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y));
}

/// What a warpgroup does: every second tile of the block.
template <typename Shape>
class ByteBulkMultiplier {
 public:
  static constexpr int kSums = Shape::kColumns / 2;  // of each half of the rows
  static constexpr int kFilters = 8;                 // neighbouring ones of a lane: see FilterAt
  static constexpr int kRows = 2;                    // of a lane, of each half

  __device__ ByteBulkMultiplier(const ByteBulk& conv, const BulkMemory<Shape>& memory, int group,
                                int thread)
      : conv_(conv),
        memory_(memory),
        steps_(conv.taps * conv.channel_steps),
        group_(group),
        thread_(thread),
        lane_(thread % 32) {}

  __device__ void Run() {
    // Before a group's first turn the one of the other is over, but for the very first.
    uint32_t turn = group_ == 0 ? 1 : 0;
    int next = 0;
    for (int tile = blockIdx.x; tile < conv_.tiles; tile += gridDim.x, next ^= 1) {
      if (next != group_) {
        stage_.Skip(steps_);
        part_.Next();
        continue;
      }
      const int column = tile % conv_.column_tiles * Shape::kColumns;
      int sums[2][kSums];
      Begin(sums, column);
      WaitFor(memory_.Barrier(Shape::kBarriers + group_), turn);
      turn ^= 1;
      Multiply(sums);
      TakePart();
      Finish(sums, column);
      PublishShared();
      __syncwarp();
      if (lane_ == 0) Arrive(memory_.Done(part_.at, 0));
      part_.Next();
    }
  }

 private:
  __device__ int FirstFilter(int column, int piece) const {
    return column + piece * kFilterGroup + lane_ % 4 * kFilters;
  }

  template <typename T>
  __device__ void Load(T (&values)[kFilters], const T* from, int filter) const {
    if (filter >= conv_.filters) {  // filters are whole pieces of 8
#pragma unroll
      for (int q = 0; q < kFilters; ++q) values[q] = 0;
      return;
    }
    reinterpret_cast<uint4*>(values)[0] = reinterpret_cast<const uint4*>(from + filter)[0];
    reinterpret_cast<uint4*>(values)[1] = reinterpret_cast<const uint4*>(from + filter)[1];
  }

  __device__ void Begin(int (&sums)[2][kSums], int column) const {
#pragma unroll
    for (int piece = 0; piece < Shape::kColumns / kFilterGroup; ++piece) {
      alignas(16) int starts[kFilters];
      Load(starts, conv_.starts, FirstFilter(column, piece));
#pragma unroll
      for (int q = 0; q < kFilters; ++q) {
        const int at = piece * 16 + q / 2 * 4 + q % 2;
        sums[0][at] = sums[0][at + 2] = sums[1][at] = sums[1][at + 2] = starts[q];
      }
    }
  }

  __device__ void Multiply(int (&sums)[2][kSums]) {
    constexpr int kHalf = Shape::kWindowBytes / 2;
    int before = 0;
    for (int step = 0; step < steps_; ++step) {
      WaitFor(memory_.Full(stage_.at), stage_.parity);
      const uint64_t upper = MatrixAt<Shape::kRowBytes>(memory_.Windows(stage_.at));
      const uint64_t lower = MatrixAt<Shape::kRowBytes>(memory_.Windows(stage_.at) + kHalf);
      const uint64_t filters = MatrixAt<Shape::kRowBytes>(memory_.Filters(stage_.at));
      HoldByteSums(sums[0]);
      HoldByteSums(sums[1]);
      BeginProducts();
#pragma unroll
      for (int k = 0; k < Shape::kRowBytes / 32; ++k) {
        MultiplyByteRows(sums[0], upper + 2 * k, filters + 2 * k);
        MultiplyByteRows(sums[1], lower + 2 * k, filters + 2 * k);
      }
      CommitProducts();
      HoldByteSums(sums[0]);
      HoldByteSums(sums[1]);
      if (step > 0) {
        WaitForProducts<1>();
        if (lane_ == 0) Arrive(memory_.Empty(before));
      }
      before = stage_.at;
      stage_.Next();
    }
    // The other group waits for stages from here on, whose phases this one has seen.
    if (lane_ == 0) Arrive(memory_.Barrier(Shape::kBarriers + (group_ ^ 1)));
    WaitForProducts<0>();
    HoldByteSums(sums[0]);
    HoldByteSums(sums[1]);
    if (lane_ == 0) Arrive(memory_.Empty(before));
  }

  /// Waits until the part of shared memory for these results may be written.
  __device__ void TakePart() const {
    if (conv_.has_addend) {
      WaitFor(memory_.Ready(part_.at, 0), part_.parity);
    } else {
      WaitFor(memory_.Free(part_.at, 0), part_.parity ^ 1);
    }
  }

  /// Both halves of the rows, one after the other by the same instructions: twice as many would not
  /// fit the cache of instructions, and warps would wait for them most of the time.
  __device__ void Finish(int (&sums)[2][kSums], int column) const {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      if (conv_.rounding.odd) {
        conv_.has_addend ? FinishAs<true, true>(sums[0], column, half)
                         : FinishAs<false, true>(sums[0], column, half);
      } else {
        conv_.has_addend ? FinishAs<true, false>(sums[0], column, half)
                         : FinishAs<false, false>(sums[0], column, half);
      }
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[0][i] = sums[1][i];
    }
  }

  template <bool has_addend, bool odd>
  __device__ void FinishAs(const int (&sums)[kSums], int column, int half) const {
    const float addend_scale = conv_.addend_scale, addend_origin = conv_.addend_origin;
    const ByteRounding rounding = conv_.rounding;
    uint32_t above;  // in a register, so that the permutations below are constants
    asm volatile("mov.b32 %0, 0x4b000000;" : "=r"(above));
#pragma unroll
    for (int piece = 0; piece < Shape::kColumns / kFilterGroup; ++piece) {
      alignas(16) float scale[kFilters];
      alignas(16) float bias[kFilters];
      Load(scale, conv_.scale, FirstFilter(column, piece));
      Load(bias, conv_.bias, FirstFilter(column, piece));
      uint2 addends[kRows];  // all on their way before the first is used
      if constexpr (has_addend) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) addends[row] = LoadWords(PlaceOf(half, row, piece));
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        uint32_t bits[kFilters];
#pragma unroll
        for (int q = 0; q < kFilters; ++q) {
          const int sum = sums[piece * 16 + q / 2 * 4 + row * 2 + q % 2];
          float value = __fmaf_rn(__int2float_rn(sum), scale[q], bias[q]);
          if constexpr (has_addend) {
            // A byte as a number: the last one of the bits of 2^23 and more.
            const uint32_t word = (q < 4 ? addends[row].x : addends[row].y) ^ conv_.addend_flip;
            const uint32_t number = __byte_perm(word, above, 0x7650 + q % 4);
            const float addend = __fsub_rn(__uint_as_float(number), addend_origin);
            value = __fmaf_rn(addend, addend_scale, value);
          }
          bits[q] = ByteBits<odd>(rounding, value);
        }
        StoreWords(PlaceOf(half, row, piece), WordOf(bits), WordOf(bits + 4));
      }
    }
  }

  /// Where the results of filters of this lane stand, of one of its rows.
  __device__ uint32_t PlaceOf(int half, int i, int piece) const {
    constexpr int kPitch = Shape::kBoxColumns, kWide = kPitch / 16;
    const int row = half * kBulkRows / 2 + thread_ / 32 * 16 + i * 8 + lane_ / 4;
    // The copy engine permutes pieces of 16 bytes within 8 rows of 128 bytes, or 64.
    const int permuted = (piece * 2 + lane_ % 4 / 2) ^ (kWide == 8 ? lane_ / 4 : lane_ / 8);
    return memory_.Box(part_.at, 0, 0) + row * kPitch + permuted * 16 + lane_ % 2 * 8;
  }

  const ByteBulk& conv_;
  const BulkMemory<Shape>& memory_;
  const int steps_, group_, thread_, lane_;
  Ring<Shape::kStages> stage_;
  Ring<Shape::kParts> part_;
};

template <typename Shape>
__global__ void __launch_bounds__(kByteBulkThreads, 1)
    ConvolveByteBulk(const __grid_constant__ ByteBulk conv) {
  extern __shared__ unsigned char shared[];
  const auto memory = BulkMemoryAt<Shape>(shared);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kTurns; ++i) {
      InitBarrier(memory.Barrier(Shape::kBarriers + i), kGroupThreads / 32);
    }
    PublishBarriers();
  }
  RunBulk(conv, memory, kGroupThreads / 32, [&](int group, int thread) {
    ByteBulkMultiplier<Shape>(conv, memory, group, thread).Run();
  });
}

template <typename Shape>
ByteBulkKernel MakeByteBulkKernel() {
  return {{kBulkRows, Shape::kColumns},
          Shape::kRowBytes,
          kByteBulkThreads,
          Shape::kSharedBytes,
          reinterpret_cast<const void*>(&ConvolveByteBulk<Shape>)};
}

}  // namespace

std::span<const ByteBulkKernel> ByteBulkKernels() {
  static const ByteBulkKernel kKernels[] = {
      MakeByteBulkKernel<ByteBulkShape<128, 128, 5, 4>>(),
      MakeByteBulkKernel<ByteBulkShape<128, 64, 7, 4>>(),
      MakeByteBulkKernel<ByteBulkShape<64, 128, 8, 4>>(),
      MakeByteBulkKernel<ByteBulkShape<64, 64, 12, 4>>(),
  };
  return kKernels;
}

}  // namespace oort::cuda
