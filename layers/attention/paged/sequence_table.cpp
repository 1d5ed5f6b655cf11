// SPDX-License-Identifier: MIT
#include "layers/attention/paged/sequence_table.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/checked.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort {

std::optional<RunState::Key> SequenceBatch::RecordingKey() const {
  if (table_ == nullptr) return {};
  // How the rows of a step are divided among several prompts is other each time.
  if (slices_.size() > 1 && table_->tiles() > 0) return {};
  return Key{cache_, table_, slices_.size()};
}

void SequenceBatch::Enqueue(cuda::Stream& stream) const {
  if (table_ != nullptr) table_->Enqueue(stream);
}

}  // namespace oort

namespace oort::cuda {
namespace {

/// Numbers for each row: position, first block and adapter, and the two of a tile.
constexpr int64_t kArrays = 5;

size_t IntBytes(int64_t count) {
  return CheckedMultiply(static_cast<size_t>(count), sizeof(int32_t));
}

}  // namespace

SequenceTable::SequenceTable(int device, int64_t most_rows, int64_t most_blocks)
    : most_rows_(most_rows),
      rows_memory_(AllocateDevice(IntBytes(CheckedMultiply<int64_t>(most_rows, kArrays)), device)),
      // The table is filled with zeros, because kernels read more entries than a sequence has.
      blocks_memory_(
          ToDevice(Tensor::Zeros(DType::kI32, Shape{most_blocks}), Device::Cuda(device)).buffer()) {
  for (Pinned& pinned : pinned_) pinned.rows = AllocatePinned(rows_memory_->size());
}

void SequenceTable::Set(std::span<const SequenceSlice> slices) {
  turn_ = 1 - turn_;
  Pinned& pinned = pinned_[turn_];
  int32_t* positions = reinterpret_cast<int32_t*>(pinned.rows->data());
  next_list_.clear();
  rows_ = 0;
  for (const SequenceSlice& slice : slices) rows_ += slice.count;
  if (rows_ > most_rows_) {
    throw Error(ErrorCode::kLimit, "a step has " + std::to_string(rows_) +
                                       " tokens; the cache has room for " +
                                       std::to_string(most_rows_));
  }
  // All arrays of this step are contiguous, so that one copy transfers them.
  int32_t* first_blocks = positions + rows_;
  int32_t* adapters = first_blocks + rows_;
  int32_t* tiles = adapters + rows_;
  int64_t row = 0;
  single_rows_ = tiles_ = 0;
  for (const SequenceSlice& slice : slices) {
    if (slice.count == 1 && tiles_ == 0) {
      ++single_rows_;
    } else {
      for (int64_t i = 0; i < slice.count; i += kTileRows, ++tiles_) {
        *tiles++ = static_cast<int32_t>(row + i);
        *tiles++ = static_cast<int32_t>(std::min(kTileRows, slice.count - i));
      }
    }
    for (int64_t i = 0; i < slice.count; ++i, ++row) {
      positions[row] = static_cast<int32_t>(slice.position + i);
      first_blocks[row] = static_cast<int32_t>(next_list_.size());
      adapters[row] = slice.adapter;
    }
    next_list_.insert(next_list_.end(), slice.blocks.begin(), slice.blocks.end());
  }
  const size_t bytes = IntBytes(static_cast<int64_t>(next_list_.size()));
  if (bytes > blocks_memory_->size()) {
    throw Error(ErrorCode::kLimit, "the sequences of a step have too many blocks");
  }
  if (next_list_ != block_list_) {
    std::swap(block_list_, next_list_);
    blocks_changed_ = true;
  }
  if (!blocks_changed_) return;
  if (!pinned.blocks || pinned.blocks->size() < bytes) {
    pinned.blocks =
        AllocatePinned(std::min(CheckedMultiply(bytes, size_t{2}), blocks_memory_->size()));
  }
  std::memcpy(pinned.blocks->data(), block_list_.data(), bytes);
}

void SequenceTable::Enqueue(Stream& stream) {
  const Pinned& pinned = pinned_[turn_];
  stream.CopyToDevice(rows_memory_->data(), pinned.rows->data(), IntBytes(3 * rows_ + 2 * tiles_));
  if (!blocks_changed_) return;
  stream.CopyToDevice(blocks_memory_->data(), pinned.blocks->data(),
                      IntBytes(static_cast<int64_t>(block_list_.size())));
  blocks_changed_ = false;
}

DeviceSequences SequenceTable::device() const {
  const int32_t* rows = reinterpret_cast<const int32_t*>(rows_memory_->data());
  return {.positions = rows,
          .first_blocks = rows + rows_,
          .blocks = reinterpret_cast<const int32_t*>(blocks_memory_->data()),
          .adapters = rows + 2 * rows_,
          .tiles = rows + 3 * rows_,
          .most_blocks = static_cast<int32_t>(blocks_memory_->size() / sizeof(int32_t))};
}

}  // namespace oort::cuda
