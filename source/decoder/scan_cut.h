// SPDX-License-Identifier: MIT
// How ranks share the heads of a layer that keeps a state of each sequence.
#pragma once

#include <optional>

#include "decoder/cut_weights.h"
#include "decoder/shard_plan.h"
#include "oort/graph.h"

namespace oort {

/// Each rank has whole groups of heads, or some heads of one group, which others have then, too.
struct ScanCut {
  AxisRanges heads, groups;
  AxisRanges inner;  ///< elements of these heads
  /// Of what the scan reads: x of heads, then b and c of groups; or queries and keys of groups,
  /// then values of heads.
  RangesInTurn columns;
};

/// Of a scan; nothing where ranks are more than heads.
std::optional<ScanCut> CutScan(const Operator& scan, int ranks);
/// Leaves of the scan what that rank has.
void TakeScan(Operator& scan, const ScanCut& cut, int rank);
/// The same of the oort.ShortConvolution before it.
void TakeConvolution(Operator& convolution, const ScanCut& cut, int rank);

}  // namespace oort
