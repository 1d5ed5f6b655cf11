// SPDX-License-Identifier: MIT
// Which sequence and position each row of a step belongs to, for kernels of paged attention.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "oort/kv_cache.h"

namespace oort::cuda {

class Stream;

/// The table lies in device memory, so that a recorded CUDA graph does not contain its values.
struct DeviceSequences {
  const int32_t* positions = nullptr;     ///< of each row in its sequence
  const int32_t* first_blocks = nullptr;  ///< of each row: where its sequence's begin; 0 first
  const int32_t* blocks = nullptr;        ///< of all sequences
  const int32_t* adapters = nullptr;      ///< of each row; below 0: none
  /// First row and number of rows of each tile: neighbouring tokens of one sequence.
  const int32_t* tiles = nullptr;
  int32_t most_blocks = 0;  ///< that there is room for
};

/// Its arrays never move. Thread contract: one thread at a time.
class SequenceTable {
 public:
  /// Rows of a tile of a prompt.
  static constexpr int64_t kTileRows = 64;

  /// For steps of up to `most_rows` rows, of sequences of `most_blocks` together.
  SequenceTable(int device, int64_t most_rows, int64_t most_blocks);

  /// Sets what the next step has. The step before may still run, the one before that must have
  /// ended. Throws kLimit for more rows or blocks than the constructor was told.
  void Set(std::span<const SequenceSlice> slices);
  /// Copies it to the device, in stream order with the steps.
  void Enqueue(Stream& stream);
  DeviceSequences device() const;
  /// Rows at the beginning of the step that are the only ones of their sequences in it. All others
  /// are in tiles.
  int64_t single_rows() const { return single_rows_; }
  int64_t tiles() const { return tiles_; }

 private:
  /// Memory that copies read while the next step is written into another.
  struct Pinned {
    std::shared_ptr<Buffer> rows, blocks;  // numbers of rows, and a list of blocks
  };

  int64_t most_rows_;
  int64_t rows_ = 0, single_rows_ = 0, tiles_ = 0;
  std::vector<int32_t> block_list_, next_list_;  // of the last step, and scratch
  bool blocks_changed_ = false;                  // since they were last brought over
  std::array<Pinned, 2> pinned_;
  size_t turn_ = 0;
  std::shared_ptr<Buffer> rows_memory_, blocks_memory_;
};

}  // namespace oort::cuda
