// SPDX-License-Identifier: MIT
// What attention of many rows shares between the units that multiply tiles of bf16.
// Only for kv_tiles*.
#pragma once

#include <algorithm>

#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/cpu/kv_load.h"
#include "layers/attention/paged/cpu/kv_softmax.h"

namespace oort::OORT_ISA {

inline constexpr int kStepTokens = static_cast<int>(kKvTileTokens);
inline constexpr int kStepBlocks = kStepTokens / kTokens;

/// The parts of the scratch memory. All but scores and sums are bf16.
struct TileBuffers {
  uint16_t* query;    ///< (kKvTileRows, head_dim), as the unit takes it
  uint16_t* keys;     ///< (kStepTokens, head_dim), likewise
  uint16_t* values;   ///< likewise
  uint16_t* weights;  ///< (kKvTileRows, kStepTokens), likewise
  float* scores;      ///< (2 tiles of rows, kStepTokens)
  float* sums;        ///< (kKvTileRows, head_dim)

  explicit TileBuffers(const KvTiles& a) {
    std::byte* next = a.scratch;
    const auto take = [&](int64_t bytes) {
      std::byte* here = next;
      next += bytes;
      return here;
    };
    query = reinterpret_cast<uint16_t*>(take(kKvTileRows * a.head_dim * 2));
    keys = reinterpret_cast<uint16_t*>(take(kStepTokens * a.head_dim * 2));
    values = reinterpret_cast<uint16_t*>(take(kStepTokens * a.head_dim * 2));
    weights = reinterpret_cast<uint16_t*>(take(kKvTileRows * kStepTokens * 2));
    scores = reinterpret_cast<float*>(take(KvTiles::kScoreRows * kStepTokens * 4));
    sums = reinterpret_cast<float*>(take(kKvTileRows * a.head_dim * 4));
  }
};

/// How many of the `count` blocks from `block` on are needed: up to the last one that any of `rows`
/// rows sees.
inline int SeenBlocks(const KvTiles& a, int row, int rows, int64_t block, int count) {
  const int64_t begin = block * kTokens, end = (block + count) * kTokens;
  int64_t seen = begin;
  for (int r = row; r < a.rows && r < row + rows; ++r) {
    if (a.first[r] < end) seen = std::max(seen, std::min(a.last[r] + 1, end));
  }
  return static_cast<int>((seen - begin + kTokens - 1) / kTokens);
}

/// Prefetches the blocks of the next step a few lines at a time: they lie too far apart for the
/// processor to predict where the next one is, and all at once they would hold up other loads.
class FetchNextStep {
 public:
  /// Over so many calls.
  FetchNextStep(const KvTiles& a, int64_t begin, int64_t end, int calls)
      : blocks_(a.blocks), block_(begin), end_(end), side_bytes_(BytesOf(a)) {
    const int64_t lines = 2 * (end - begin) * ((side_bytes_ + 63) / 64);
    lines_ = (lines + calls - 1) / calls;
  }
  void operator()() {
    for (int64_t i = 0; i < lines_ && block_ < end_; ++i) {
      const KvBlock& block = blocks_[block_];
      __builtin_prefetch((values_ ? block.values : block.keys) + at_, 0, 2);
      at_ += 64;
      if (at_ < side_bytes_) continue;
      at_ = 0;
      if (values_) ++block_;
      values_ = !values_;
    }
  }

 private:
  static int64_t BytesOf(const KvTiles& a) {
    const int64_t size = a.type == KvType::kF32 ? 4 : a.type == KvType::kF16 ? 2 : 1;
    return a.head_dim * kTokens * size;
  }

  const KvBlock* blocks_;
  int64_t block_, end_, side_bytes_, lines_, at_ = 0;
  bool values_ = false;
};

}  // namespace oort::OORT_ISA
