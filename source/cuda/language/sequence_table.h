// SPDX-License-Identifier: MIT
// Whose tokens the rows of a step are, for kernels that attend to keys and values in blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "oort/kv_cache.h"

namespace oort::cuda {

class Stream;

/// In device memory, so that a recorded step has none of it fixed.
struct DeviceSequences {
  const int32_t* positions = nullptr;     ///< of each row in its sequence
  const int32_t* first_blocks = nullptr;  ///< of each row: where the blocks of its sequence begin
  const int32_t* blocks = nullptr;        ///< of all sequences
};

/// Its arrays never move. Thread contract: one thread at a time.
class SequenceTable {
 public:
  /// For steps of up to `most_rows` rows, of sequences of `most_blocks` together.
  SequenceTable(int device, int64_t most_rows, int64_t most_blocks);

  /// What the next step has; the one before must be over. Throws kLimit for more than was said.
  void Set(std::span<const SequenceSlice> slices);
  /// Brings positions of the step's rows over, before the first kernel that reads them; recorded
  /// with the rest, it brings what Set has written by then.
  void Enqueue(Stream& stream) const;
  DeviceSequences device() const;

 private:
  int device_;
  int64_t most_rows_;
  int64_t rows_ = 0;
  std::vector<int32_t> block_list_, next_list_;  // as they are on the device, and scratch
  std::shared_ptr<Buffer> pinned_;               // (2, most_rows)
  std::shared_ptr<Buffer> rows_memory_, blocks_memory_;
};

}  // namespace oort::cuda
