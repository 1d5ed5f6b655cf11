// SPDX-License-Identifier: MIT
// Products with a constant matrix in other words than nn.Linear, which the other passes know.
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// The operands of a product with a constant (k,n), or (n,k) if transposed; -1 where there is none.
struct ConstantProduct {
  int x = -1, matrix = -1, bias = -1;
  bool transposed = false;
};

bool HasNames(const Operator& op, const std::vector<std::string>& names) {
  if (op.inputs.size() > names.size() || op.outputs.size() != 1) return false;
  for (size_t i = 0; i < op.input_names.size(); ++i) {
    if (!op.input_names[i].empty() && op.input_names[i] != names[i]) return false;
  }
  return true;
}

bool IsOne(const Operator& op, const char* name) {
  const Value value = ParameterValue(op, name);
  return value.IsNone() || ((value.IsInt() || value.IsFloat()) && value.AsFloat() == 1);
}

ConstantProduct ReadProduct(const Operator& op) {
  const std::vector<int>& in = op.inputs;
  if (op.type == "torch.addmm" && in.size() == 3 && HasNames(op, {"input", "mat1", "mat2"}) &&
      IsOne(op, "alpha") && IsOne(op, "beta")) {
    return {in[1], in[2], in[0], false};
  }
  if (op.type == "torch.matmul" && in.size() == 2 && HasNames(op, {"input", "other"})) {
    return {in[0], in[1], -1, false};
  }
  if (op.type == "torch.mm" && in.size() == 2 && HasNames(op, {"input", "mat2"})) {
    return {in[0], in[1], -1, false};
  }
  if (op.type == "F.linear" && in.size() >= 2 && HasNames(op, {"input", "weight", "bias"})) {
    return {in[0], in[1], in.size() == 3 ? in[2] : -1, true};
  }
  return {};
}

Tensor Transposed(const Tensor& matrix) {
  const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  Tensor result(DType::kF32, {columns, rows});
  const float* from = matrix.data<float>();
  float* to = result.data<float>();
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * rows + i] = from[i * columns + j];
  }
  return result;
}

bool BecomeLinear(Rewriter& rewriter, int index) {
  const ConstantProduct product = ReadProduct(rewriter.op(index));
  if (product.x < 0) return false;
  const Operand& x = rewriter.operand(product.x);
  if (x.dtype != DType::kF32 || !x.has_shape || x.shape.rank() < 1) return false;
  const Tensor* matrix = rewriter.ConstantOf(product.matrix);
  if (matrix == nullptr || matrix->dtype() != DType::kF32 || matrix->rank() != 2) return false;
  const int64_t out = matrix->dim(product.transposed ? 0 : 1);
  if (matrix->elements() == 0 || rewriter.ConstantOf(product.x) != nullptr) return false;
  const Tensor* bias = nullptr;
  if (product.bias >= 0) {
    bias = rewriter.ConstantOf(product.bias);
    if (bias == nullptr || bias->dtype() != DType::kF32 || !(bias->shape() == Shape{out})) {
      return false;
    }
  }
  const Tensor weight = product.transposed ? *matrix : Transposed(*matrix);
  Operator& op = rewriter.op(index);
  op.type = "nn.Linear";
  op.params.clear();
  op.attributes = {{"weight", weight}};
  if (bias != nullptr) op.attributes.emplace("bias", *bias);
  rewriter.SetInputs(index, {product.x});
  return true;
}

/// "[size(@0,0),size(@0,1),96]" for rank 3 and a last extent of 96: the shape of the operator's
/// only input with another last extent.
bool KeepsLeadingAxes(const Operator& op, int rank, int64_t last) {
  std::string expected = "[";
  for (int i = 0; i + 1 < rank; ++i) expected += "size(@0," + std::to_string(i) + "),";
  expected += std::to_string(last) + "]";
  return op.type == "pnnx.Expression" && op.inputs.size() == 1 &&
         ParameterText(op, "expr") == expected;
}

bool IsReshapeOp(const Operator& op) {
  return (op.type == "Tensor.reshape" || op.type == "Tensor.view") && op.outputs.size() == 1;
}

/// reshape(linear(reshape(x, (-1,k))), the shape of x up to its last axis) is linear(x).
void DropReshapes(Rewriter& rewriter, int index) {
  const Operator& linear = rewriter.op(index);
  if (linear.type != "nn.Linear" || linear.inputs.size() != 1 || linear.outputs.size() != 1) return;
  const Tensor* weight = FindAttribute(linear, "weight");
  if (weight == nullptr || weight->rank() != 2) return;
  const int flat = linear.inputs[0], before = rewriter.ProducerOf(flat);
  if (before < 0 || !IsReshapeOp(rewriter.op(before)) || rewriter.op(before).inputs.size() != 1) {
    return;
  }
  const std::string shape = ParameterText(rewriter.op(before), "shape");
  if (shape != "(-1," + std::to_string(weight->dim(1)) + ")") return;
  const int x = rewriter.op(before).inputs[0];
  if (!rewriter.operand(x).has_shape || !rewriter.HasOneUse(linear.outputs[0])) return;
  const Shape& traced = rewriter.operand(x).shape;
  if (traced.rank() < 1 || traced[traced.rank() - 1] != weight->dim(1)) return;

  const int after = rewriter.operand(linear.outputs[0]).consumers[0];
  const Operator& back = rewriter.op(after);
  if (!IsReshapeOp(back) || back.inputs.size() != 2 || back.inputs[0] != linear.outputs[0]) return;
  const int sizes = rewriter.ProducerOf(back.inputs[1]);
  if (sizes < 0 || !KeepsLeadingAxes(rewriter.op(sizes), traced.rank(), weight->dim(0))) return;
  if (rewriter.op(sizes).inputs[0] != x) return;
  rewriter.SetInputs(index, {x});
  rewriter.GiveOutput(after, index);
}

}  // namespace

void MatchLinear(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    if (rewriter.dead(index)) continue;
    BecomeLinear(rewriter, index);
    DropReshapes(rewriter, index);
  }
  rewriter.Finish();
}

}  // namespace oort
