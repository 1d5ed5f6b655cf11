// SPDX-License-Identifier: MIT
// On a GPU nn.MultiheadAttention that attends to its own input becomes a product of queries, keys
// and values, attention and a product: operators that can compute in 16 bits, that take what stands
// before and behind them, and that are recorded. The layer of the CPU is all of that itself.
#include "graph/device_limits.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

bool IsMatrix(const Tensor* tensor, int64_t rows, int64_t columns) {
  return tensor != nullptr && IsFloatOrAbsent(tensor) && tensor->shape() == Shape{rows, columns};
}

bool IsAbsentOrOf(const Tensor* tensor, int64_t elements) {
  return IsFloatOrAbsent(tensor) && (tensor == nullptr || tensor->elements() == elements);
}

bool IsTrue(const Operator& op, const char* name) {
  const Value value = ParameterValue(op, name);
  return value.IsBool() && value.AsBool();
}

/// How wide its rows are; 0 where it is not of the kind that becomes parts. What contradicts itself
/// stays as it is, to be refused.
int64_t WidthOf(Rewriter& rewriter, int index) {
  const Operator& op = rewriter.op(index);
  if (op.type != "nn.MultiheadAttention" || op.inputs.empty() || op.outputs.empty()) return 0;
  for (const int input : op.inputs) {
    if (input != op.inputs[0]) return 0;
  }
  const Operand& input = rewriter.operand(op.inputs[0]);
  // Without batches first, a row of rank 3 has those of all batches beside it.
  const bool rows_in_a_row =
      IsTrue(op, "batch_first") || (input.has_shape && input.shape.rank() == 2);
  if (input.dtype != DType::kF32 || !rows_in_a_row) return 0;
  if (op.outputs.size() > 1 && !rewriter.operand(op.outputs[1]).consumers.empty()) return 0;
  const Value heads = ParameterValue(op, "num_heads");
  const Tensor* out = FindAttribute(op, "out_proj.weight");
  if (out == nullptr || out->rank() != 2 || !heads.IsInt() || heads.AsInt() < 1) return 0;
  const int64_t width = out->dim(0);
  const bool fits = width > 0 && width % heads.AsInt() == 0 &&
                    width / heads.AsInt() <= kDeviceAttentionWidth && IsMatrix(out, width, width) &&
                    IsMatrix(FindAttribute(op, "in_proj_weight"), 3 * width, width) &&
                    IsAbsentOrOf(FindAttribute(op, "in_proj_bias"), 3 * width) &&
                    IsAbsentOrOf(FindAttribute(op, "out_proj.bias"), width);
  const bool appends = IsTrue(op, "add_zero_attn") || FindAttribute(op, "bias_k") != nullptr ||
                       FindAttribute(op, "bias_v") != nullptr;
  return fits && !appends ? width : 0;
}

class MultiheadExpander {
 public:
  explicit MultiheadExpander(Rewriter& rewriter) : rewriter_(rewriter) {}

  void Expand(int index, int64_t width) {
    const Operator whole = rewriter_.op(index);
    const int joint =
        Add(Linear(whole, "in_proj_weight", "in_proj_bias"), whole.inputs[0], 3 * width);
    Operator attention = Part(whole, "oort.JointAttention", "attention");
    attention.params["heads"] = whole.params.at("num_heads");
    const int mixed = Add(std::move(attention), joint, width);
    Operator out = Linear(whole, "out_proj.weight", "out_proj.bias");
    out.inputs = {mixed};
    const int last = rewriter_.graph().AddOperator(std::move(out));
    rewriter_.graph().SetOutputs(index, {whole.outputs[0]});
    rewriter_.GiveOutput(index, last);
  }

 private:
  static Operator Part(const Operator& whole, const char* type, const std::string& name) {
    Operator part;
    part.type = type;
    part.name = whole.name + "/" + name;
    part.line = whole.line;
    part.whole_name = whole.FileName();
    part.whole_type = whole.FileType();
    part.input_names = {""};
    return part;
  }

  static Operator Linear(const Operator& whole, const char* weight, const char* bias) {
    Operator linear = Part(whole, "nn.Linear", weight);
    const Tensor& matrix = whole.attributes.at(weight);
    linear.attributes["weight"] = matrix;
    const Tensor* const numbers = FindAttribute(whole, bias);
    if (numbers != nullptr) linear.attributes["bias"] = numbers->Reshaped({matrix.dim(0)});
    linear.params["bias"] = Parameter::FromValue(Value(numbers != nullptr));
    return linear;
  }

  /// The output of an operator that reads `input`, whose last axis has `width` elements.
  int Add(Operator op, int input, int64_t width) {
    const std::string name = op.name;
    const int output = rewriter_.graph().AddOperand(name);
    const Operand& from = rewriter_.operand(input);
    Operand& to = rewriter_.operand(output);
    to.dtype = from.dtype;
    to.has_shape = from.has_shape && from.shape.rank() > 0;
    to.shape = from.shape;
    if (to.has_shape) to.shape[to.shape.rank() - 1] = width;
    op.inputs = {input};
    op.outputs = {output};
    rewriter_.graph().AddOperator(std::move(op));
    return output;
  }

  Rewriter& rewriter_;
};

}  // namespace

void ExpandMultihead(Graph& graph, const PassContext& context) {
  if (!context.on_gpu || !context.HasLayer("oort.JointAttention")) return;
  Rewriter rewriter(graph);
  MultiheadExpander expander(rewriter);
  const size_t operators = graph.operators.size();
  for (size_t i = 0; i < operators; ++i) {
    const int64_t width = WidthOf(rewriter, static_cast<int>(i));
    if (width > 0) expander.Expand(static_cast<int>(i), width);
  }
  rewriter.Finish();
}

}  // namespace oort
