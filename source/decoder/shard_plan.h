// SPDX-License-Identifier: MIT
// Which part of an axis each rank computes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace oort {

struct AxisRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const AxisRange&) const = default;
};

/// One for each rank.
using AxisRanges = std::vector<AxisRange>;

/// Parts of an axis, of which each rank has a range: these lie one behind another there.
using RangesInTurn = std::vector<AxisRanges>;
/// What a rank has of them.
std::vector<AxisRange> RangesOf(const RangesInTurn& parts, int rank);

/// Whether each element belongs to exactly one rank.
bool IsPartition(const AxisRanges& ranges, int64_t count);
/// The same ranges in units of `unit` elements.
AxisRanges Scaled(const AxisRanges& ranges, int64_t unit);

/// `count` elements in whole units, as evenly as they go; nothing where a rank would have none.
std::optional<AxisRanges> CutEvenly(int64_t count, int64_t unit, int ranks);

/// The heads of each rank: its queries, and all keys that these look at. Several ranks may have the
/// same head of keys, and a part of its queries each.
struct HeadRanges {
  AxisRanges queries, keys;
};

struct HeadCut {
  int64_t heads = 1, kv_heads = 1;
  int ranks = 1;
  /// Heads of queries that stay together.
  int64_t unit = 1;
  /// On each rank every head of keys has as many queries as the others.
  bool even_groups = false;
};
/// The cut that gives the busiest rank the least; of two alike, the one that has fewer heads of
/// keys twice. Nothing where there are more ranks than heads of queries, or where these cannot be
/// shared out.
std::optional<HeadRanges> CutHeads(const HeadCut& cut);

}  // namespace oort
