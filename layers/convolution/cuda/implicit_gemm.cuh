// SPDX-License-Identifier: MIT
// Convolution as an implicit GEMM (Chetlur et al., cuDNN, 2014): the im2col matrix, whose row m
// holds the values under the window of output pixel m, is never stored. Its tiles are fetched from
// the image into shared memory several steps ahead.
#pragma once

#include <cooperative_groups.h>

#include "cuda/tiles.h"
#include "layers/convolution/cuda/gemm_conv_args.h"
#include "layers/convolution/cuda/tile_copiers.cuh"
#include "layers/convolution/cuda/warp_tile.cuh"

namespace oort::cuda {

/// The shape of a block: warps of `warp_rows` by `warp_columns`, `stages` steps in shared memory,
/// images read through the L1 cache or not.
template <int rows_, int columns_, int warp_rows_, int warp_columns_, int stages_,
          bool cached_ = false>
struct BlockShape {
  static constexpr int kRows = rows_, kColumns = columns_, kWarpRows = warp_rows_;
  static constexpr int kWarpColumns = warp_columns_, kStages = stages_;
  static constexpr bool kCached = cached_;
  static constexpr int kThreads = rows_ / warp_rows_ * (columns_ / warp_columns_) * 32;
  static constexpr int kStageBytes = (rows_ + columns_) * kRowBytes;
  /// Floats from row to row of the sums, so that their stores have no bank conflicts.
  static constexpr int kSumStride = columns_ + 8;
  static constexpr int kSumBytes = rows_ * kSumStride * 4;
};

/// Split-K reduction: sums what the thread blocks of the cluster have of the tile, in the order of
/// their ranks, and writes this thread block's share of the results. A thread has 8 columns of a
/// few rows.
template <typename T, typename Shape>
class ResultWriter {
 public:
  static constexpr int kItems = 8, kAlong = Shape::kColumns / kItems;
  static constexpr int kRowStep = Shape::kThreads / kAlong, kPieces = Shape::kRows / kRowStep;
  static constexpr int kBatch = kPieces < 4 ? kPieces : 4;  // pieces whose addends are on their way
  static_assert(Shape::kThreads % kAlong == 0 && Shape::kRows % kRowStep == 0);

  __device__ ResultWriter(const GemmConv& conv, int first_row, int first_column, int group,
                          int thread)
      : conv_(conv),
        tile_row_(static_cast<int>(blockIdx.x) % conv.splits * kRowStep + thread / kAlong),
        tile_column_(thread % kAlong * kItems),
        first_row_(first_row),
        left_(conv.filters - first_column - tile_column_),
        filter_(group * conv.filters + first_column + tile_column_) {}

  /// Loads the bias and the first addends before the sums are complete.
  __device__ void Prepare() {
    const float* bias = conv_.epilogue.bias;
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      bias_[i] = bias != nullptr && i < left_ ? bias[filter_ + i] : 0;
    Fetch(0);
  }

  __device__ void Write(float* sums) {
    WriteBatch(sums, 0);
    for (int first = kBatch; first * conv_.splits < kPieces; first += kBatch) {
      Fetch(first);
      WriteBatch(sums, first);
    }
  }

 private:
  __device__ int RowOf(int piece) const { return tile_row_ + piece * conv_.splits * kRowStep; }
  __device__ bool IsHere(int row) const {
    return row < Shape::kRows && first_row_ + row < conv_.rows && left_ > 0;
  }
  __device__ int64_t PlaceOf(int row) const {
    return static_cast<int64_t>(first_row_ + row) * conv_.out_pixel + filter_;
  }

  __device__ void Fetch(int first) {
    if (conv_.epilogue.addend == nullptr) return;
    const T* addend = static_cast<const T*>(conv_.epilogue.addend);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = RowOf(first + i);
      if (!IsHere(row)) continue;
      if (conv_.whole_pieces) {
        addends_[i] = LoadElements<T, kItems>(addend + PlaceOf(row));
      } else {
#pragma unroll
        for (int j = 0; j < kItems; ++j) {
          if (j < left_) addends_[i].at[j] = addend[PlaceOf(row) + j];
        }
      }
    }
  }

  __device__ void WriteBatch(float* sums, int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = RowOf(first + i);
      if (IsHere(row)) WriteOne(sums + row * Shape::kSumStride + tile_column_, row, addends_[i]);
    }
  }

  __device__ void WriteOne(float* sums, int row, const Elements<T, kItems>& addend) {
    float values[kItems];
    AddUp(values, sums);
    const Epilogue& epilogue = conv_.epilogue;
    Elements<T, kItems> results;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      float value = values[i] + bias_[i];
      if (epilogue.addend != nullptr) value += ToFloat(addend.at[i]);
      results.at[i] = FromFloat<T>(Activate(epilogue.activation, epilogue.a, epilogue.b, value));
    }
    T* out = static_cast<T*>(conv_.out) + PlaceOf(row);
    if (conv_.whole_pieces) {
      StoreElements<T, kItems>(out, results);
    } else {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (i < left_) out[i] = results.at[i];
      }
    }
  }

  __device__ void AddUp(float (&values)[kItems], float* sums) {
#if __CUDA_ARCH__ >= 900
    if (conv_.splits > 1) {
      const auto cluster = cooperative_groups::this_cluster();
#pragma unroll
      for (int i = 0; i < kItems; ++i) values[i] = 0;
#pragma unroll 4
      for (int other = 0; other < conv_.splits; ++other) {
        const float4* part = reinterpret_cast<const float4*>(cluster.map_shared_rank(sums, other));
        const float4 x = part[0], y = part[1];
        const float more[kItems] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < kItems; ++i) values[i] += more[i];
      }
      return;
    }
#endif
    const float4 x = reinterpret_cast<const float4*>(sums)[0];
    const float4 y = reinterpret_cast<const float4*>(sums)[1];
    const float own[kItems] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < kItems; ++i) values[i] = own[i];
  }

  const GemmConv& conv_;
  int tile_row_, tile_column_, first_row_;
  int left_, filter_;  // filters from here on, and the number of the first
  float bias_[kItems];
  Elements<T, kItems> addends_[kBatch];
};

template <ConvMath math, typename Shape, int grain>
__global__ void __launch_bounds__(Shape::kThreads)
    ConvolveTile(const __grid_constant__ GemmConv conv) {
  using T = typename ConvItem<math>::Type;
  constexpr int kThreads = Shape::kThreads, kStages = Shape::kStages;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t base = SharedAddress(shared);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int group = blockIdx.z;
  const int tile = blockIdx.x / conv.splits, rank = blockIdx.x % conv.splits;
  const int first_row = tile / conv.column_tiles * Shape::kRows;
  const int first_column = tile % conv.column_tiles * Shape::kColumns;
  const int begin = conv.steps * rank / conv.splits, end = conv.steps * (rank + 1) / conv.splits;
  LaunchDependents();

  FilterCopier<T, Shape::kColumns, kThreads> filters(
      conv,
      static_cast<const T*>(conv.weight) + static_cast<int64_t>(group) * conv.filters * conv.depth,
      first_column, begin, thread);
  constexpr int kWindowBytes = Shape::kRows * kRowBytes;
  // No kernel writes the filters, so they are fetched while the preceding kernel still runs.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end) filters.Copy(base + s * Shape::kStageBytes + kWindowBytes);
  }
  WindowCopier<T, grain, Shape::kRows, kThreads, Shape::kCached> windows(
      conv, static_cast<const T*>(conv.in) + group * conv.channels, first_row, begin, thread);
  WaitForPredecessor();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end) windows.Copy(base + s * Shape::kStageBytes);
    CommitCopies();
  }

  constexpr int kWarpsAlong = Shape::kColumns / Shape::kWarpColumns;
  const int warp_row = warp / kWarpsAlong * Shape::kWarpRows;
  const int warp_column = warp % kWarpsAlong * Shape::kWarpColumns;
  WarpTile<math, Shape::kWarpRows, Shape::kWarpColumns> sums;
  int stage = 0, next = kStages - 1;
  for (int step = begin; step < end; ++step) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    const uint32_t ahead = base + next * Shape::kStageBytes;
    if (step + kStages - 1 < end) {
      filters.Copy(ahead + kWindowBytes);
      windows.Copy(ahead);
    }
    CommitCopies();
    const uint32_t matrices = base + stage * Shape::kStageBytes;
    sums.Add(matrices + warp_row * kRowBytes, matrices + kWindowBytes + warp_column * kRowBytes,
             lane);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    next = next + 1 == kStages ? 0 : next + 1;
  }

  WaitForCopies<0>();
  __syncthreads();  // nobody reads the matrices any more
  float* results = reinterpret_cast<float*>(shared);
  sums.Store(results + warp_row * Shape::kSumStride + warp_column, Shape::kSumStride, lane);
  ResultWriter<T, Shape> writer(conv, first_row, first_column, group, thread);
  writer.Prepare();
#if __CUDA_ARCH__ >= 900
  if (conv.splits > 1) {
    cooperative_groups::this_cluster().sync();
    writer.Write(results);
    cooperative_groups::this_cluster().sync();  // others read the sums of this block
    return;
  }
#endif
  __syncthreads();
  writer.Write(results);
}

}  // namespace oort::cuda
