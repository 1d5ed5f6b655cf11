// SPDX-License-Identifier: MIT
#include "layers/reduction/reduce_plan.h"

namespace oort {

ReducePlan PlanReduction(const Shape& input, const std::vector<int64_t>& dims, bool keepdim) {
  std::array<bool, Shape::kMaxRank> reduce{};
  for (const int64_t dim : dims) {
    bool& flag = reduce[static_cast<size_t>(NormalizeAxis(dim, input.rank()))];
    if (flag) {
      throw Error(ErrorCode::kInvalidArgument, "axis " + std::to_string(dim) + " is given twice");
    }
    flag = true;
  }
  if (dims.empty()) reduce.fill(true);

  ReducePlan plan;
  ScratchVector<ReducePlan::Axis>* last = nullptr;
  int64_t stride = std::max<int64_t>(1, input.elements());
  for (int i = 0; i < input.rank(); ++i) {
    const bool gone = reduce[static_cast<size_t>(i)];
    const int64_t extent = input[i];
    (gone ? plan.count : plan.results) *= extent;
    if (!gone || keepdim) plan.output.Append(gone ? 1 : extent);
    if (extent == 1) continue;
    stride /= std::max<int64_t>(1, extent);
    ScratchVector<ReducePlan::Axis>& list = gone ? plan.reduced : plan.kept;
    if (last == &list) {
      list.back() = {list.back().extent * extent, stride};
    } else {
      list.push_back({extent, stride});
    }
    last = &list;
  }
  plan.contiguous = last != &plan.kept;
  if (plan.kept.empty()) plan.kept.emplace_back();
  if (plan.reduced.empty()) plan.reduced.emplace_back();
  return plan;
}

ReduceAxes::ReduceAxes(const LayerInit& init)
    : keepdim(init.Arg("keepdim") >= 0 && init.Bool("keepdim")) {
  if (const Value& dim = init.Constant("dim"); !dim.IsNone()) dims = dim.AsInts();
}

void RequireElements(const ReducePlan& plan, const Shape& input) {
  if (plan.count == 0 && plan.results > 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "the elements to reduce are none: input " + input.ToString());
  }
}

}  // namespace oort
