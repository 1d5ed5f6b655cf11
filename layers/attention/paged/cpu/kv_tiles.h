// SPDX-License-Identifier: MIT
// What attention of many rows shares between the units that multiply tiles of bf16.
// Only for kv_tiles*.
#pragma once

#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/cpu/kv_load.h"
#include "layers/attention/paged/cpu/kv_softmax.h"

namespace oort::OORT_ISA {

inline constexpr int kStepTokens = static_cast<int>(kKvTileTokens);
inline constexpr int kStepBlocks = kStepTokens / kTokens;

/// Prefetches the blocks of the next step a few lines at a time: they lie too far apart for the
/// processor to predict where the next one is, and all at once they would hold up other loads.
class FetchNextStep {
 public:
  /// Over so many calls.
  FetchNextStep(const KvTiles& a, int64_t begin, int64_t end, int calls)
      : blocks_(a.blocks),
        block_(begin),
        end_(a.fetches_ahead ? end : begin),
        key_bytes_(KvSideBytes(a.type, a.head_dim, false)),
        value_bytes_(KvSideBytes(a.type, a.head_dim, true)) {
    const int64_t lines = (end_ - begin) * ((key_bytes_ + 63) / 64 + (value_bytes_ + 63) / 64);
    lines_ = (lines + calls - 1) / calls;
  }
  void operator()() {
    for (int64_t i = 0; i < lines_ && block_ < end_; ++i) {
      const KvBlock& block = blocks_[block_];
      __builtin_prefetch((values_ ? block.values : block.keys) + at_, 0, 2);
      at_ += 64;
      if (at_ < (values_ ? value_bytes_ : key_bytes_)) continue;
      at_ = 0;
      if (values_) ++block_;
      values_ = !values_;
    }
  }

 private:
  const KvBlock* blocks_;
  int64_t block_, end_, key_bytes_, value_bytes_, lines_ = 0, at_ = 0;
  bool values_ = false;
};
}  // namespace oort::OORT_ISA
