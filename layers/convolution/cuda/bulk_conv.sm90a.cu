// SPDX-License-Identifier: MIT
// Convolution as an implicit GEMM (Chetlur et al. 2014) on Hopper: a persistent, warp-specialized
// kernel. Thread blocks take tile after tile. One warp has the copy engine (TMA) fetch what is
// under the windows several steps ahead, one fetches the filters and the addends, two warpgroups
// multiply and leave their results in shared memory, and one warp has them written.
#include "cuda/warpgroup.cuh"
#include "layers/convolution/cuda/bulk_conv.h"
#include "layers/convolution/cuda/bulk_conv_args.h"
#include "layers/convolution/cuda/fast_activation.cuh"

namespace oort::cuda {
namespace {

constexpr int kBulkRows = 128, kGroupRows = 64, kBulkRowBytes = 128, kBulkDepth = 64;
constexpr int kGroups = 2, kGroupThreads = 128, kFetchers = 2, kHelpers = 3;
constexpr int kBulkThreads = kGroups * kGroupThreads + kHelpers * 32;

/// `stages` steps of both matrices and `parts` tiles of results are in shared memory.
template <int columns_, int stages_, int parts_, int resident_>
struct BulkShape {
  static constexpr int kColumns = columns_, kStages = stages_, kParts = parts_;
  static constexpr int kResident = resident_;
  static constexpr int kWindowBytes = kBulkRows * kBulkRowBytes;
  static constexpr int kFilterBytes = kColumns * kBulkRowBytes;
  static constexpr int kStageBytes = kWindowBytes + kFilterBytes;
  static constexpr int kBoxBytes = kGroupRows * kBulkRowBytes;  // 64 columns of a group's results
  static constexpr int kBoxes = kColumns / 64;
  static constexpr int kPartBytes = kGroups * kBoxes * kBoxBytes;
  static constexpr int kBarriers = 2 * kStages + 3 * kGroups * kParts;
  static constexpr int kMatrixBytes = kStages * kStageBytes + kParts * kPartBytes;
  static constexpr int kSharedBytes = 1024 + kMatrixBytes + kBarriers * 8;
};

/// Where things are in shared memory.
template <typename Shape>
struct BulkMemory {
  uint32_t base;
  __device__ uint32_t Windows(int stage) const { return base + stage * Shape::kStageBytes; }
  __device__ uint32_t Filters(int stage) const { return Windows(stage) + Shape::kWindowBytes; }
  __device__ uint32_t Box(int part, int group, int box) const {
    return base + Shape::kStages * Shape::kStageBytes + part * Shape::kPartBytes +
           (group * Shape::kBoxes + box) * Shape::kBoxBytes;
  }
  __device__ uint32_t Barrier(int index) const { return base + Shape::kMatrixBytes + index * 8; }
  __device__ uint32_t Full(int stage) const { return Barrier(stage); }
  __device__ uint32_t Empty(int stage) const { return Barrier(Shape::kStages + stage); }
  /// Barriers of a part: its addends have arrived, its results are complete, its results have been
  /// read.
  __device__ uint32_t Ready(int part, int group) const {
    return Barrier(2 * Shape::kStages + part * kGroups + group);
  }
  __device__ uint32_t Done(int part, int group) const {
    return Barrier(2 * Shape::kStages + (Shape::kParts + part) * kGroups + group);
  }
  __device__ uint32_t Free(int part, int group) const {
    return Barrier(2 * Shape::kStages + (2 * Shape::kParts + part) * kGroups + group);
  }
};

/// Fetches what is under the windows of all tiles of this block; one thread. It must be quick: a
/// step of the product takes some 300 cycles.
template <typename Shape>
class WindowFetcher {
 public:
  __device__ WindowFetcher(const BulkConv& conv, const BulkMemory<Shape>& memory)
      : conv_(conv), memory_(memory) {}

  __device__ void Run() {
    WaitForPredecessor();
    for (int tile = blockIdx.x; tile < conv_.tiles; tile += gridDim.x) {
      const int row = tile / conv_.column_tiles * kBulkRows;
      if (conv_.windows) {
        FetchWindows(row);
      } else {
        FetchRows(row);
      }
    }
  }

 private:
  __device__ void FetchRows(int row) {
    for (int channel = 0; channel < conv_.channels; channel += kBulkDepth) {
      const uint32_t barrier = Begin();
      FetchBox(memory_.Windows(stage_.at), conv_.in, barrier, channel, row);
      stage_.Next();
    }
  }

  __device__ void FetchWindows(int row) {
    const int image = row / conv_.out_plane, pixel = row % conv_.out_plane;
    const int y = pixel / conv_.out_width * conv_.stride_down - conv_.pad_top;
    const int x = pixel % conv_.out_width * conv_.stride_along - conv_.pad_left;
    for (int down = 0; down < conv_.reach_down; down += conv_.dilation_down) {
      for (int along = 0; along < conv_.reach_along; along += conv_.dilation_along) {
        for (int channel = 0; channel < conv_.channels; channel += kBulkDepth) {
          const uint32_t barrier = Begin();
          FetchPixels(memory_.Windows(stage_.at), conv_.in, barrier, channel, x, y, image, along,
                      down);
          stage_.Next();
        }
      }
    }
  }

  __device__ uint32_t Begin() const {
    WaitFor(memory_.Empty(stage_.at), stage_.parity ^ 1);
    const uint32_t barrier = memory_.Full(stage_.at);
    ArriveAndExpect(barrier, Shape::kWindowBytes);
    return barrier;
  }

  const BulkConv& conv_;
  const BulkMemory<Shape>& memory_;
  Ring<Shape::kStages> stage_;
};

/// The same for filters and addends. No kernel writes the filters, so they are fetched while the
/// preceding kernel still runs.
template <typename Shape>
class FilterFetcher {
 public:
  __device__ FilterFetcher(const BulkConv& conv, const BulkMemory<Shape>& memory)
      : conv_(conv), memory_(memory) {}

  __device__ void Run() {
    const int first = blockIdx.x;
    for (int tile = first; tile < conv_.tiles; tile += gridDim.x) {
      const int column = tile % conv_.column_tiles * Shape::kColumns;
      FetchFilters(column);
      if (!conv_.has_addend) continue;
      if (tile == first) WaitForPredecessor();
      FetchAddends(tile / conv_.column_tiles * kBulkRows, column);
    }
  }

 private:
  __device__ void FetchFilters(int column) {
    for (int tap = 0, first = 0; tap < conv_.taps; ++tap, first += conv_.channels) {
      for (int channel = 0; channel < conv_.channels; channel += kBulkDepth) {
        WaitFor(memory_.Empty(stage_.at), stage_.parity ^ 1);
        const uint32_t barrier = memory_.Full(stage_.at);
        ArriveAndExpect(barrier, Shape::kFilterBytes);
        FetchBox(memory_.Filters(stage_.at), conv_.weight, barrier, first + channel, column);
        stage_.Next();
      }
    }
  }

  __device__ void FetchAddends(int row, int column) {
    for (int group = 0; group < kGroups; ++group) {
      WaitFor(memory_.Free(part_.at, group), part_.parity ^ 1);
      const uint32_t barrier = memory_.Ready(part_.at, group);
      ArriveAndExpect(barrier, Shape::kBoxes * Shape::kBoxBytes);
      for (int box = 0; box < Shape::kBoxes; ++box) {
        FetchBox(memory_.Box(part_.at, group, box), conv_.addend, barrier, column + box * 64,
                 row + group * kGroupRows);
      }
    }
    part_.Next();
  }

  const BulkConv& conv_;
  const BulkMemory<Shape>& memory_;
  Ring<Shape::kStages> stage_;
  Ring<Shape::kParts> part_;
};

/// Has the results written; one thread.
template <typename Shape>
class ResultStorer {
 public:
  __device__ ResultStorer(const BulkConv& conv, const BulkMemory<Shape>& memory)
      : conv_(conv), memory_(memory) {}

  __device__ void Run() {
    for (int tile = blockIdx.x; tile < conv_.tiles; tile += gridDim.x) {
      const int row = tile / conv_.column_tiles * kBulkRows;
      const int column = tile % conv_.column_tiles * Shape::kColumns;
      for (int group = 0; group < kGroups; ++group) {
        WaitFor(memory_.Done(part_.at, group), part_.parity);
        for (int box = 0; box < Shape::kBoxes; ++box) {
          if (column + box * 64 >= conv_.filters) break;
          StoreBox(conv_.out, memory_.Box(part_.at, group, box), column + box * 64,
                   row + group * kGroupRows);
        }
        CommitStores();
      }
      WaitForReads<0>();
      for (int group = 0; group < kGroups; ++group) Arrive(memory_.Free(part_.at, group));
      part_.Next();
    }
    WaitForStores();
  }

 private:
  const BulkConv& conv_;
  const BulkMemory<Shape>& memory_;
  Ring<Shape::kParts> part_;
};

/// What a warpgroup does: its 64 rows of each tile.
template <ConvMath math, typename Shape>
class BulkMultiplier {
 public:
  using T = std::conditional_t<math == ConvMath::kF16, __half, __nv_bfloat16>;
  static constexpr int kSums = Shape::kColumns / 2;

  __device__ BulkMultiplier(const BulkConv& conv, const BulkMemory<Shape>& memory, int group,
                            int thread)
      : conv_(conv),
        memory_(memory),
        steps_(conv.taps * conv.channel_steps),
        group_(group),
        thread_(thread),
        lane_(thread % 32) {}

  __device__ void Run() {
    for (int tile = blockIdx.x; tile < conv_.tiles; tile += gridDim.x) {
      const int column = tile % conv_.column_tiles * Shape::kColumns;
      float sums[kSums];
      Begin(sums, column);
      Multiply(sums);
      TakePart();
      Finish(sums);
      PublishShared();
      __syncwarp();
      if (lane_ == 0) Arrive(memory_.Done(part_.at, group_));
      part_.Next();
    }
  }

 private:
  __device__ void Begin(float (&sums)[kSums], int column) {
#pragma unroll
    for (int j = 0; j < Shape::kColumns / 8; ++j) {
      const int filter = column + 8 * j + 2 * (lane_ % 4);
      float2 bias = make_float2(0, 0);
      if (conv_.bias != nullptr && filter < conv_.filters) {  // filters are whole pieces of 8
        bias = *reinterpret_cast<const float2*>(conv_.bias + filter);
      }
      sums[4 * j] = sums[4 * j + 2] = bias.x;
      sums[4 * j + 1] = sums[4 * j + 3] = bias.y;
    }
  }

  __device__ void Multiply(float (&sums)[kSums]) {
    int before = 0;
    for (int step = 0; step < steps_; ++step) {
      WaitFor(memory_.Full(stage_.at), stage_.parity);
      const uint64_t a = MatrixAt(memory_.Windows(stage_.at) + group_ * Shape::kBoxBytes);
      const uint64_t b = MatrixAt(memory_.Filters(stage_.at));
      HoldSums(sums);
      BeginProducts();
#pragma unroll
      for (int k = 0; k < kBulkDepth / 16; ++k) MultiplyRows<T>(sums, a + 2 * k, b + 2 * k);
      CommitProducts();
      HoldSums(sums);
      if (step > 0) {
        WaitForProducts<1>();
        if (lane_ == 0) Arrive(memory_.Empty(before));
      }
      before = stage_.at;
      stage_.Next();
    }
    WaitForProducts<0>();
    HoldSums(sums);
    if (lane_ == 0) Arrive(memory_.Empty(before));
  }

  /// Waits until the part of shared memory for these results may be written.
  __device__ void TakePart() const {
    if (conv_.has_addend) {
      WaitFor(memory_.Ready(part_.at, group_), part_.parity);
    } else {
      WaitFor(memory_.Free(part_.at, group_), part_.parity ^ 1);
    }
  }

  __device__ void Finish(const float (&sums)[kSums]) const {
    switch (conv_.activation.curve) {
      case Activation::kSilu: return FinishAs<Activation::kSilu>(sums);
      case Activation::kHardswish: return FinishAs<Activation::kHardswish>(sums);
      default: return FinishAs<Activation::kNone>(sums);
    }
  }

  template <Activation curve>
  __device__ void FinishAs(const float (&sums)[kSums]) const {
    // Both rows of this thread are alike modulo 8.
    const uint32_t row = (thread_ / 32 * 16 + lane_ / 4) * kBulkRowBytes + lane_ % 4 * 4;
    const float low = conv_.activation.low, high = conv_.activation.high;
#pragma unroll
    for (int box = 0; box < Shape::kBoxes; ++box) {
      const uint32_t at = memory_.Box(part_.at, group_, box) + row;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        ElementPair<T> addends[8];  // all on their way before the first is used
        if (conv_.has_addend) {
#pragma unroll
          for (int i = 0; i < 8; ++i) addends[i] = LoadPair<T>(at + PairAt(i, half));
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int sum = 32 * box + 4 * i + 2 * half;
          float x = sums[sum], y = sums[sum + 1];
          if (conv_.has_addend) {
            x += ToFloat(addends[i].first);
            y += ToFloat(addends[i].second);
          }
          StorePair<T>(at + PairAt(i, half), ActivateAs<curve>(x, low, high),
                       ActivateAs<curve>(y, low, high));
        }
      }
    }
  }

  /// Pair i of 8 columns, of the upper row or the one 8 below.
  __device__ uint32_t PairAt(int i, int half) const {
    return ((i ^ (lane_ / 4)) << 4) + half * 8 * kBulkRowBytes;
  }

  const BulkConv& conv_;
  const BulkMemory<Shape>& memory_;
  const int steps_, group_, thread_, lane_;
  Ring<Shape::kStages> stage_;
  Ring<Shape::kParts> part_;
};

template <ConvMath math, typename Shape>
__global__ void __launch_bounds__(kBulkThreads, Shape::kResident)
    ConvolveBulk(const __grid_constant__ BulkConv conv) {
  extern __shared__ unsigned char shared[];
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const BulkMemory<Shape> memory = {(start + 1023) / 1024 * 1024};
  const int thread = threadIdx.x;
  constexpr int kFetcher = kGroups * kGroupThreads;
  LaunchDependents();
  if (thread == kFetcher) {
    PrefetchMap(conv.in);
    PrefetchMap(conv.weight);
    PrefetchMap(conv.out);
    if (conv.has_addend) PrefetchMap(conv.addend);
    for (int i = 0; i < Shape::kStages; ++i) {
      InitBarrier(memory.Full(i), kFetchers);
      InitBarrier(memory.Empty(i), kGroups * kGroupThreads / 32);
    }
    for (int i = 0; i < Shape::kParts * kGroups; ++i) {
      InitBarrier(memory.Ready(i / kGroups, i % kGroups), 1);
      InitBarrier(memory.Done(i / kGroups, i % kGroups), kGroupThreads / 32);
      InitBarrier(memory.Free(i / kGroups, i % kGroups), 1);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (thread < kFetcher) {
    BulkMultiplier<math, Shape>(conv, memory, thread / kGroupThreads, thread % kGroupThreads).Run();
  } else if (thread == kFetcher) {
    WindowFetcher<Shape>(conv, memory).Run();
  } else if (thread == kFetcher + 32) {
    FilterFetcher<Shape>(conv, memory).Run();
  } else if (thread == kFetcher + 64) {
    ResultStorer<Shape>(conv, memory).Run();
  }
}

template <ConvMath math, typename Shape>
BulkConvKernel MakeBulkConvKernel() {
  return {{kBulkRows, Shape::kColumns},
          kBulkThreads,
          Shape::kSharedBytes,
          Shape::kResident,
          reinterpret_cast<const void*>(&ConvolveBulk<math, Shape>)};
}

template <ConvMath math>
std::span<const BulkConvKernel> BulkKernels() {
  static const BulkConvKernel kKernels[] = {
      MakeBulkConvKernel<math, BulkShape<128, 4, 3, 1>>(),
      MakeBulkConvKernel<math, BulkShape<64, 3, 2, 2>>(),
  };
  return kKernels;
}

}  // namespace

std::span<const BulkConvKernel> BulkConvKernels(ConvMath math) {
  if (math == ConvMath::kF16) return BulkKernels<ConvMath::kF16>();
  if (math == ConvMath::kBF16) return BulkKernels<ConvMath::kBF16>();
  return {};
}

}  // namespace oort::cuda
