// SPDX-License-Identifier: MIT
#include "decoder/shard_plan.h"

#include <algorithm>

namespace oort {

std::vector<AxisRange> RangesOf(const RangesInTurn& parts, int rank) {
  std::vector<AxisRange> ranges;
  for (const AxisRanges& part : parts) ranges.push_back(part[static_cast<size_t>(rank)]);
  return ranges;
}

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

namespace {

/// A head of keys goes with its queries; where there are more ranks than heads of keys, ranks share
/// one.
std::optional<HeadRanges> CutByKeys(int64_t kv_heads, int64_t group, int ranks) {
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

std::optional<HeadRanges> CutByQueries(int64_t heads, int64_t group, int64_t unit, int ranks) {
  const std::optional<AxisRanges> queries = CutEvenly(heads, unit, ranks);
  if (!queries) return {};
  HeadRanges cut{*queries, {}};
  for (const AxisRange& range : *queries) {
    cut.keys.push_back({range.begin / group, (range.end + group - 1) / group});
  }
  return cut;
}

/// Of the rank that has most: a head of queries has rows before attention and columns behind it, a
/// head of keys has rows, and those of values.
int64_t MostHeads(const HeadRanges& cut) {
  int64_t most = 0;
  for (size_t rank = 0; rank < cut.queries.size(); ++rank) {
    most = std::max(most, cut.queries[rank].size() + cut.keys[rank].size());
  }
  return most;
}

}  // namespace

std::optional<HeadRanges> CutHeads(const HeadCut& cut) {
  if (cut.kv_heads < 1 || cut.heads < cut.kv_heads || cut.heads % cut.kv_heads != 0) return {};
  const int64_t group = cut.heads / cut.kv_heads;
  std::optional<HeadRanges> by_keys = CutByKeys(cut.kv_heads, group, cut.ranks);
  if (cut.even_groups) return by_keys;
  std::optional<HeadRanges> by_queries = CutByQueries(cut.heads, group, cut.unit, cut.ranks);
  const bool is_less = by_keys && by_queries && MostHeads(*by_queries) < MostHeads(*by_keys);
  return is_less || !by_keys ? by_queries : by_keys;
}

}  // namespace oort
