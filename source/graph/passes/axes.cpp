// SPDX-License-Identifier: MIT
#include "graph/passes/axes.h"

#include <algorithm>

#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// -1 where it is no axis of that rank.
int AxisOf(const Value& value, int rank) {
  if (!value.IsInt() || value.AsInt() < -rank || value.AsInt() >= rank) return -1;
  const int axis = static_cast<int>(value.AsInt());
  return axis < 0 ? axis + rank : axis;
}

}  // namespace

bool PermutesAxes(const Operator& op) {
  return op.type == "torch.transpose" || op.type == "Tensor.permute" || op.type == "torch.permute";
}

std::vector<int> AxisOrder(const Operator& op, const Operand& output) {
  if (!PermutesAxes(op) || !output.has_shape || op.inputs.size() != 1) return {};
  const int rank = output.shape.rank();
  std::vector<int> order;
  if (op.type == "torch.transpose") {
    for (int i = 0; i < rank; ++i) order.push_back(i);
    const int a = AxisOf(ParameterValue(op, "dim0"), rank);
    const int b = AxisOf(ParameterValue(op, "dim1"), rank);
    if (a < 0 || b < 0) return {};
    std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
    return order;
  }
  const Value dims = ParameterValue(op, "dims");
  if (!dims.IsList() || static_cast<int>(dims.AsList().size()) != rank) return {};
  for (const Value& dim : dims.AsList()) order.push_back(AxisOf(dim, rank));
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < rank; ++i) {
    if (sorted[static_cast<size_t>(i)] != i) return {};
  }
  return order;
}

void SetPermutation(Operator& op, const std::vector<int>& order) {
  op.type = "Tensor.permute";
  op.params.clear();
  op.input_names.clear();
  std::string dims;
  for (int axis : order) dims += (dims.empty() ? "(" : ",") + std::to_string(axis);
  op.params["dims"] = Parameter(dims + ")");
}

}  // namespace oort
