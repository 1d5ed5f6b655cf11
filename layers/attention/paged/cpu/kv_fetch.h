// SPDX-License-Identifier: MIT
// Prefetches of what decode attention reads next. Only for kernels of attention.
#pragma once

#include "layers/attention/paged/cpu/kv_kernels.h"
#include "layers/attention/paged/cpu/kv_load.h"

namespace oort::OORT_ISA {

/// Blocks of a step: their scores are computed first, then their values are summed.
inline constexpr int kStepBlocks = 8;
/// How many blocks the step from `block` on has. Steps end at whole multiples, whatever block is
/// the first: with a window, that depends on which tokens are computed together, and the result of
/// a token must not.
inline int64_t StepCount(int64_t block, int64_t last_block) {
  const int64_t end = (block / kStepBlocks + 1) * kStepBlocks;
  return (end < last_block ? end : last_block) - block;
}

/// Prefetches keys and values. Blocks of a paged cache lie too far apart for the processor to
/// predict where the next one is.
template <KvType type>
inline void FetchSide(const std::byte* side, int64_t head_dim, bool values) {
  const int64_t bytes = KvSideBytes(type, head_dim, values);
  for (int64_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(side + at, 0, 2);
  }
}

/// The keys and values of blocks in the order in which they are read: the keys of up to
/// kStepBlocks, then their values.
template <KvType type, typename Queries = KvAttention>
struct FetchAhead {
  // The distance is long enough to hide the latency of memory, and short enough that the L2 cache
  // still holds the data when it is used.
  static constexpr int kSides = type == KvType::kF32 ? 2 : type == KvType::kF16 ? 4 : 8;
  const Queries& a;
  int64_t first, end, next = 0;
  bool values = false;

  FetchAhead(const Queries& attention, int64_t begin, int64_t last)
      : a(attention), first(begin), end(last), next(begin) {
    for (int i = 0; i < kSides; ++i) One();
  }
  void One() {
    if (first == end) return;
    FetchSide<type>(values ? a.blocks[next].values : a.blocks[next].keys, a.head_dim, values);
    ++next;
    if (next < first + StepCount(first, end)) return;
    if (values) first = next;
    next = first;
    values = !values;
  }
};

}  // namespace oort::OORT_ISA
