// SPDX-License-Identifier: MIT
// What feeds the tiles of a convolution on Hopper and empties them: single threads that have the
// copy engine (TMA) fetch what is under the windows, filters and addends several steps ahead, and
// have the results written. Thread blocks take tile after tile. For *.sm90a.cu files.
#pragma once

#include "cuda/kernel_tools.h"
#include "cuda/tiles.h"
#include "cuda/warpgroup.cuh"
#include "layers/convolution/cuda/bulk_conv_args.h"

namespace oort::cuda {

inline constexpr int kBulkRows = 128, kGroupThreads = 128;
inline constexpr int kBulkGroups = 2;  // warpgroups that multiply
inline constexpr int kBulkFetchers = 2, kBulkHelpers = 3;
/// Of the helpers, and of those who multiply, where the helpers are a whole warpgroup.
inline constexpr int kHelperRegisters = 40, kMultiplierRegisters = 232;
inline constexpr int kBulkThreads = kBulkGroups * kGroupThreads + kBulkHelpers * 32;

/// `stages` steps of both matrices and `parts` tiles of results are in shared memory. Results of a
/// part are complete in `groups` of rows, each for itself, and lie in boxes of up to 128 bytes of
/// as many rows.
template <int item, int row_bytes, int columns, int stages, int parts, int groups>
struct BulkLayout {
  static constexpr int kRowBytes = row_bytes;  // of both matrices in a step
  static constexpr int kColumns = columns, kStages = stages, kParts = parts, kGroups = groups;
  static constexpr int kDepth = row_bytes / item;  // elements of a step
  static constexpr int kWindowBytes = kBulkRows * row_bytes;
  static constexpr int kFilterBytes = columns * row_bytes;
  static constexpr int kStageBytes = kWindowBytes + kFilterBytes;
  static constexpr int kBoxRows = kBulkRows / groups;
  static constexpr int kBoxColumns = columns < 128 / item ? columns : 128 / item;
  static constexpr int kBoxes = columns / kBoxColumns;
  static constexpr int kBoxBytes = kBoxRows * kBoxColumns * item;
  static constexpr int kPartBytes = groups * kBoxes * kBoxBytes;
  static constexpr int kBarriers = 2 * stages + 3 * groups * parts;
  static constexpr int kMatrixBytes = stages * kStageBytes + parts * kPartBytes;
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
    return Barrier(2 * Shape::kStages + part * Shape::kGroups + group);
  }
  __device__ uint32_t Done(int part, int group) const {
    return Barrier(2 * Shape::kStages + (Shape::kParts + part) * Shape::kGroups + group);
  }
  __device__ uint32_t Free(int part, int group) const {
    return Barrier(2 * Shape::kStages + (2 * Shape::kParts + part) * Shape::kGroups + group);
  }
};

/// Fetches what is under the windows of all tiles of this block; one thread. It must be quick: a
/// step of the product takes some 300 cycles.
template <typename Shape>
class WindowFetcher {
 public:
  __device__ WindowFetcher(const BulkWalk& conv, const BulkMemory<Shape>& memory)
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
    for (int channel = 0; channel < conv_.channels; channel += Shape::kDepth) {
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
        for (int channel = 0; channel < conv_.channels; channel += Shape::kDepth) {
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

  const BulkWalk& conv_;
  const BulkMemory<Shape>& memory_;
  Ring<Shape::kStages> stage_;
};

/// The same for filters and addends. No kernel writes the filters, so they are fetched while the
/// preceding kernel still runs.
template <typename Shape>
class FilterFetcher {
 public:
  __device__ FilterFetcher(const BulkWalk& conv, const BulkMemory<Shape>& memory)
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
      for (int channel = 0; channel < conv_.channels; channel += Shape::kDepth) {
        WaitFor(memory_.Empty(stage_.at), stage_.parity ^ 1);
        const uint32_t barrier = memory_.Full(stage_.at);
        ArriveAndExpect(barrier, Shape::kFilterBytes);
        FetchBox(memory_.Filters(stage_.at), conv_.weight, barrier, first + channel, column);
        stage_.Next();
      }
    }
  }

  __device__ void FetchAddends(int row, int column) {
    for (int group = 0; group < Shape::kGroups; ++group) {
      WaitFor(memory_.Free(part_.at, group), part_.parity ^ 1);
      const uint32_t barrier = memory_.Ready(part_.at, group);
      ArriveAndExpect(barrier, Shape::kBoxes * Shape::kBoxBytes);
      for (int box = 0; box < Shape::kBoxes; ++box) {
        FetchBox(memory_.Box(part_.at, group, box), conv_.addend, barrier,
                 column + box * Shape::kBoxColumns, row + group * Shape::kBoxRows);
      }
    }
    part_.Next();
  }

  const BulkWalk& conv_;
  const BulkMemory<Shape>& memory_;
  Ring<Shape::kStages> stage_;
  Ring<Shape::kParts> part_;
};

/// Has the results written; one thread.
template <typename Shape>
class ResultStorer {
 public:
  __device__ ResultStorer(const BulkWalk& conv, const BulkMemory<Shape>& memory)
      : conv_(conv), memory_(memory) {}

  __device__ void Run() {
    for (int tile = blockIdx.x; tile < conv_.tiles; tile += gridDim.x) {
      const int row = tile / conv_.column_tiles * kBulkRows;
      const int column = tile % conv_.column_tiles * Shape::kColumns;
      for (int group = 0; group < Shape::kGroups; ++group) {
        WaitFor(memory_.Done(part_.at, group), part_.parity);
        for (int box = 0; box < Shape::kBoxes; ++box) {
          if (column + box * Shape::kBoxColumns >= conv_.filters) break;
          StoreBox(conv_.out, memory_.Box(part_.at, group, box), column + box * Shape::kBoxColumns,
                   row + group * Shape::kBoxRows);
        }
        CommitStores();
      }
      WaitForReads<0>();
      for (int group = 0; group < Shape::kGroups; ++group) Arrive(memory_.Free(part_.at, group));
      part_.Next();
    }
    WaitForStores();
  }

 private:
  const BulkWalk& conv_;
  const BulkMemory<Shape>& memory_;
  Ring<Shape::kParts> part_;
};

/// Prepares the barriers; one thread. `readers` warps give a stage back.
template <typename Shape>
__device__ void InitBarriers(const BulkMemory<Shape>& memory, int readers) {
  for (int i = 0; i < Shape::kStages; ++i) {
    InitBarrier(memory.Full(i), kBulkFetchers);
    InitBarrier(memory.Empty(i), readers);
  }
  for (int i = 0; i < Shape::kParts * Shape::kGroups; ++i) {
    InitBarrier(memory.Ready(i / Shape::kGroups, i % Shape::kGroups), 1);
    InitBarrier(memory.Done(i / Shape::kGroups, i % Shape::kGroups), kGroupThreads / 32);
    InitBarrier(memory.Free(i / Shape::kGroups, i % Shape::kGroups), 1);
  }
  PublishBarriers();
}

/// A whole thread block: `multiplier` is what its warpgroups do.
template <typename Shape, typename Multiplier>
__device__ void RunBulk(const BulkWalk& conv, const BulkMemory<Shape>& memory, int readers,
                        Multiplier multiplier) {
  constexpr int kFetcher = kBulkGroups * kGroupThreads;
  const int thread = threadIdx.x;
  LaunchDependents();
  if (thread == kFetcher) {
    PrefetchMap(conv.in);
    PrefetchMap(conv.weight);
    PrefetchMap(conv.out);
    if (conv.has_addend) PrefetchMap(conv.addend);
    InitBarriers(memory, readers);
  }
  __syncthreads();
  if (thread < kFetcher) {
    if constexpr (Shape::kMovesRegisters) TakeRegisters<kMultiplierRegisters>();
    multiplier(thread / kGroupThreads, thread % kGroupThreads);
  } else {
    if constexpr (Shape::kMovesRegisters) GiveRegisters<kHelperRegisters>();
    if (thread == kFetcher) {
      WindowFetcher<Shape>(conv, memory).Run();
    } else if (thread == kFetcher + 32) {
      FilterFetcher<Shape>(conv, memory).Run();
    } else if (thread == kFetcher + 64) {
      ResultStorer<Shape>(conv, memory).Run();
    }
  }
}

/// Where the memory of a block begins that was given kSharedBytes of it.
template <typename Shape>
__device__ BulkMemory<Shape> BulkMemoryAt(const unsigned char* shared) {
  return {(SharedAddress(shared) + 1023) / 1024 * 1024};
}

}  // namespace oort::cuda
