// SPDX-License-Identifier: MIT
// Convolution as an implicit GEMM (Chetlur et al. 2014) on Hopper: a persistent, warp-specialized
// kernel. Two warpgroups multiply a tile together and leave their results in shared memory; what
// feeds and empties it is in bulk_pipeline.cuh.
#include "layers/convolution/cuda/bulk_conv.h"
#include "layers/convolution/cuda/bulk_pipeline.cuh"
#include "layers/convolution/cuda/fast_activation.cuh"

namespace oort::cuda {
namespace {

template <int columns, int stages, int parts, int resident_>
struct BulkShape : BulkLayout<2, 128, columns, stages, parts, kBulkGroups> {
  static constexpr int kResident = resident_;
  static constexpr bool kMovesRegisters = false;
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
      for (int k = 0; k < Shape::kDepth / 16; ++k) MultiplyRows<T>(sums, a + 2 * k, b + 2 * k);
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
    const uint32_t row = (thread_ / 32 * 16 + lane_ / 4) * Shape::kRowBytes + lane_ % 4 * 4;
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
    return ((i ^ (lane_ / 4)) << 4) + half * 8 * Shape::kRowBytes;
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
  const auto memory = BulkMemoryAt<Shape>(shared);
  RunBulk(conv, memory, kBulkGroups * kGroupThreads / 32, [&](int group, int thread) {
    BulkMultiplier<math, Shape>(conv, memory, group, thread).Run();
  });
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
