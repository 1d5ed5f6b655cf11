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

/// Whether each element belongs to exactly one rank.
bool IsPartition(const AxisRanges& ranges, int64_t count);
/// The same ranges in units of `unit` elements.
AxisRanges Scaled(const AxisRanges& ranges, int64_t unit);

/// `count` elements in whole units, as evenly as they go; nothing where a rank would have none.
std::optional<AxisRanges> CutEvenly(int64_t count, int64_t unit, int ranks);

/// The heads of each rank. A head of keys goes with its queries; where there are more ranks than
/// heads of keys, several ranks have the same one, and a part of its queries each.
struct HeadRanges {
  AxisRanges queries, keys;
};
/// Nothing where there are more ranks than heads of queries, or where these cannot be shared out.
std::optional<HeadRanges> CutHeads(int64_t heads, int64_t kv_heads, int ranks);

}  // namespace oort
