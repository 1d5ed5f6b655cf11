// SPDX-License-Identifier: MIT
#include "decoder/shard_plan.h"

#include <algorithm>

namespace oort {

bool IsPartition(const AxisRanges& ranges, int64_t count) {
  int64_t next = 0;
  for (const AxisRange& range : ranges) {
    if (range.begin != next || range.end < range.begin) return false;
    next = range.end;
  }
  return next == count;
}

AxisRanges Scaled(const AxisRanges& ranges, int64_t unit) {
  AxisRanges scaled;
  for (const AxisRange& range : ranges) scaled.push_back({range.begin * unit, range.end * unit});
  return scaled;
}

std::optional<AxisRanges> CutEvenly(int64_t count, int64_t unit, int ranks) {
  const int64_t units = (count + unit - 1) / unit;
  if (ranks < 1 || units < ranks) return {};
  AxisRanges ranges;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    ranges.push_back({std::min(count, units * rank / ranks * unit),
                      std::min(count, units * (rank + 1) / ranks * unit)});
  }
  return ranges;
}

std::optional<HeadRanges> CutHeads(int64_t heads, int64_t kv_heads, int ranks) {
  if (kv_heads < 1 || heads < kv_heads || heads % kv_heads != 0) return {};
  const int64_t group = heads / kv_heads;
  if (ranks <= kv_heads) {
    const std::optional<AxisRanges> keys = CutEvenly(kv_heads, 1, ranks);
    if (!keys) return {};
    return HeadRanges{Scaled(*keys, group), *keys};
  }
  HeadRanges cut;
  for (int64_t head = 0; head < kv_heads; ++head) {
    const int64_t sharing = ranks * (head + 1) / kv_heads - ranks * head / kv_heads;
    const std::optional<AxisRanges> queries = CutEvenly(group, 1, static_cast<int>(sharing));
    if (!queries) return {};
    for (const AxisRange& range : *queries) {
      cut.queries.push_back({head * group + range.begin, head * group + range.end});
      cut.keys.push_back({head, head + 1});
    }
  }
  return cut;
}

}  // namespace oort
