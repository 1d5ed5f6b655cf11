// SPDX-License-Identifier: MIT
// Convolution as an implicit GEMM (Chetlur et al., cuDNN, 2014): the im2col matrix, whose row m
// holds the values under the window of output pixel m, is never stored. Its tiles are fetched from
// the image into shared memory several steps ahead.
#pragma once

#include <cooperative_groups.h>

#include "cuda/tiles.h"
#include "layers/convolution/cuda/gemm_conv_args.h"
#include "layers/convolution/cuda/warp_tile.cuh"

namespace oort::cuda {

/// Copies what is under the windows of some output pixels. Each thread copies one 16-byte piece of
/// each of its rows, in grains that lie within one pixel.
template <typename T, int grain, int tile_rows, int threads, bool cached>
class WindowCopier {
 public:
  static constexpr int kPasses = tile_rows * 8 / threads, kGrains = 16 / grain;
  static constexpr int kStep = kRowBytes / static_cast<int>(sizeof(T));
  static constexpr int kGrainItems = grain / static_cast<int>(sizeof(T));
  static_assert(kPasses * threads == tile_rows * 8);

  __device__ WindowCopier(const GemmConv& conv, const T* in, int first_row, int step, int thread)
      : conv_(conv), in_(in), to_(PieceAt(thread / 8, thread % 8)) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int row = first_row + thread / 8 + i * (threads / 8);
      const int image = row / conv.out_plane, pixel = row % conv.out_plane;
      const int y = pixel / conv.out_width * conv.stride_down - conv.pad_top;
      const int x = pixel % conv.out_width * conv.stride_along - conv.pad_left;
      // Rows behind the last one are outside of the image, so they are filled with zeros.
      top_[i] = row < conv.rows ? y : -(1 << 30);
      left_[i] = x;
      base_[i] = ((image * conv.height + y) * conv.width + x) * conv.in_pixel;
    }
#pragma unroll
    for (int g = 0; g < kGrains; ++g) {
      const int k =
          step * kStep + thread % 8 * (16 / static_cast<int>(sizeof(T))) + g * kGrainItems;
      const int tap = k / conv.channels;
      channel_[g] = k % conv.channels;
      row_[g] = tap / conv.kernel_width;
      column_[g] = tap % conv.kernel_width;
    }
  }

  /// The next step, into the matrix at `to`.
  __device__ void Copy(uint32_t to) {
#pragma unroll
    for (int g = 0; g < kGrains; ++g) {
      // Taps behind the last one are outside of the image, too.
      const int down = row_[g] < conv_.kernel_height ? row_[g] * conv_.dilation_down : 1 << 29;
      const int along = column_[g] * conv_.dilation_along;
      const auto offset = static_cast<int>(  // of no meaning behind the last tap
          (static_cast<unsigned>(down) * conv_.width + along) * conv_.in_pixel + channel_[g]);
#pragma unroll
      for (int i = 0; i < kPasses; ++i) {
        const bool valid = static_cast<unsigned>(top_[i] + down) < conv_.height &&
                           static_cast<unsigned>(left_[i] + along) < conv_.width;
        const T* from = valid ? in_ + (base_[i] + offset) : in_;
        // Rows of all passes are alike modulo 8: they are permuted alike.
        CopyOrZero<grain, cached>(to + to_ + i * (threads / 8) * kRowBytes + g * grain, from,
                                  valid);
      }
      Advance(g);
    }
  }

 private:
  __device__ void Advance(int g) {
    channel_[g] += conv_.channel_step;
    const int carry = channel_[g] >= conv_.channels;
    if (carry) channel_[g] -= conv_.channels;
    column_[g] += conv_.column_step + carry;
    row_[g] += conv_.row_step;
    if (column_[g] >= conv_.kernel_width) {
      column_[g] -= conv_.kernel_width;
      ++row_[g];
    }
  }

  const GemmConv& conv_;
  const T* in_;
  uint32_t to_;
  int top_[kPasses], left_[kPasses], base_[kPasses];
  int channel_[kGrains], row_[kGrains], column_[kGrains];
};

/// The same for filters, which lie as the product needs them.
template <typename T, int tile_columns, int threads>
class FilterCopier {
 public:
  static constexpr int kPasses = (tile_columns * 8 + threads - 1) / threads;
  static constexpr int kItems = 16 / static_cast<int>(sizeof(T));

  __device__ FilterCopier(const GemmConv& conv, const T* weight, int first_column, int step,
                          int thread)
      : conv_(conv),
        weight_(weight),
        column_(first_column + thread / 8),
        item_((step * 8 + thread % 8) * kItems),
        to_(PieceAt(thread / 8, thread % 8)),
        active_(thread < tile_columns * 8) {}

  __device__ void Copy(uint32_t to) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int column = column_ + i * (threads / 8);
      const bool valid = column < conv_.filters && item_ < conv_.depth;
      const T* from = weight_ + (valid ? static_cast<int64_t>(column) * conv_.depth + item_ : 0);
      if (kPasses > 1 || active_) {
        CopyOrZero<16, false>(to + to_ + i * (threads / 8) * kRowBytes, from, valid);
      }
    }
    item_ += 8 * kItems;
  }

 private:
  const GemmConv& conv_;
  const T* weight_;
  int column_, item_;
  uint32_t to_;
  bool active_;
};

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
