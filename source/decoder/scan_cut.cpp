// SPDX-License-Identifier: MIT
#include "decoder/scan_cut.h"

#include <algorithm>

#include "core/checked.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

AxisRanges Moved(AxisRanges ranges, int64_t by) {
  for (AxisRange& range : ranges) range = {range.begin + by, range.end + by};
  return ranges;
}

}  // namespace

std::optional<ScanCut> CutScan(const Operator& scan, int ranks) {
  const int64_t heads = IntParameter(scan, "heads"), head_dim = IntParameter(scan, "head_dim");
  const int64_t groups = std::max<int64_t>(IntParameter(scan, "groups"), 1);
  const int64_t size = IntParameter(scan, "size");
  const std::optional<HeadRanges> cut =
      CutHeads({.heads = heads, .kv_heads = groups, .ranks = ranks, .even_groups = true});
  if (!cut || head_dim < 1 || size < 1) return {};
  const int64_t inner = CheckedMultiply(heads, head_dim), of_groups = CheckedMultiply(groups, size);
  const AxisRanges inputs = Scaled(cut->keys, size);
  ScanCut result{cut->queries, cut->keys, Scaled(cut->queries, head_dim), {}};
  if (scan.type == "oort.DeltaScan") {
    const int64_t of_both = CheckedMultiply(of_groups, int64_t{2});
    result.columns = {inputs, Moved(inputs, of_groups), Moved(result.inner, of_both)};
    return result;
  }
  result.columns = {result.inner, Moved(inputs, inner),
                    Moved(inputs, CheckedAdd(inner, of_groups))};
  return result;
}

void TakeScan(Operator& scan, const ScanCut& cut, int rank) {
  const AxisRange heads = cut.heads[static_cast<size_t>(rank)];
  for (const char* name : {"rate", "skip", "step_bias"}) TakeRows(scan, name, {heads});  // if there
  const auto set = [&](const char* name, int64_t value) {
    scan.params[name] = Parameter::FromValue(Value(value));
  };
  set("heads", heads.size());
  set("groups", cut.groups[static_cast<size_t>(rank)].size());
}

void TakeConvolution(Operator& convolution, const ScanCut& cut, int rank) {
  for (const char* name : {"weight", "bias"}) {
    TakeRows(convolution, name, RangesOf(cut.columns, rank));
  }
}

}  // namespace oort
