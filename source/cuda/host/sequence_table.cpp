// SPDX-License-Identifier: MIT
#include "cuda/language/sequence_table.h"

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

size_t IntBytes(int64_t count) {
  return CheckedMultiply(static_cast<size_t>(count), sizeof(int32_t));
}

}  // namespace

SequenceTable::SequenceTable(int device, int64_t most_rows, int64_t most_blocks)
    : device_(device),
      most_rows_(most_rows),
      pinned_(AllocatePinned(IntBytes(CheckedMultiply<int64_t>(most_rows, 2)))),
      rows_memory_(AllocateDevice(pinned_->size(), device)),
      blocks_memory_(AllocateDevice(IntBytes(most_blocks), device)) {}

void SequenceTable::Set(std::span<const SequenceSlice> slices) {
  int32_t* positions = reinterpret_cast<int32_t*>(pinned_->data());
  next_list_.clear();
  rows_ = 0;
  for (const SequenceSlice& slice : slices) rows_ += slice.count;
  if (rows_ > most_rows_) {
    throw Error(ErrorCode::kLimit, "a step has " + std::to_string(rows_) +
                                       " tokens; the cache has room for " +
                                       std::to_string(most_rows_));
  }
  // Both arrays of this step's rows stand together: one copy brings them.
  int32_t* first_blocks = positions + rows_;
  int64_t row = 0;
  for (const SequenceSlice& slice : slices) {
    for (int64_t i = 0; i < slice.count; ++i, ++row) {
      positions[row] = static_cast<int32_t>(slice.position + i);
      first_blocks[row] = static_cast<int32_t>(next_list_.size());
    }
    next_list_.insert(next_list_.end(), slice.blocks.begin(), slice.blocks.end());
  }
  if (next_list_ == block_list_) return;
  if (IntBytes(static_cast<int64_t>(next_list_.size())) > blocks_memory_->size()) {
    throw Error(ErrorCode::kLimit, "the sequences of a step have too many blocks");
  }
  block_list_.clear();  // should the copy fail
  Upload(blocks_memory_->data(), next_list_.data(), next_list_.size() * sizeof(int32_t), device_);
  std::swap(block_list_, next_list_);
}

void SequenceTable::Enqueue(Stream& stream) const {
  stream.CopyToDevice(rows_memory_->data(), pinned_->data(), IntBytes(rows_ * 2));
}

DeviceSequences SequenceTable::device() const {
  const int32_t* rows = reinterpret_cast<const int32_t*>(rows_memory_->data());
  return {rows, rows + rows_, reinterpret_cast<const int32_t*>(blocks_memory_->data())};
}

}  // namespace oort::cuda
