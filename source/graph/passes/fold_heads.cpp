// SPDX-License-Identifier: MIT
// Attention reads and writes (batch,length,heads,width) itself, so that nothing is transposed
// before and after it.
#include "graph/passes/axes.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

bool SwapsHeads(const std::vector<int>& order) { return order == std::vector<int>{0, 2, 1, 3}; }

/// Query, key, value and mask by position, whatever they are named.
bool IsAttention(const Operator& op) {
  if (op.type != "F.scaled_dot_product_attention" && op.type != "oort.Attention") return false;
  constexpr std::string_view kNames[] = {"query", "key", "value", "attn_mask"};
  if (op.inputs.size() < 3 || op.inputs.size() > 4 || op.outputs.size() != 1) return false;
  for (size_t i = 0; i < op.input_names.size(); ++i) {
    if (!op.input_names[i].empty() && op.input_names[i] != kNames[i]) return false;
  }
  return true;
}

void SetFlag(Operator& op, const char* name) {
  op.type = "oort.Attention";
  op.params[name] = Parameter("True");
  op.params["rank"] = Parameter("4");
}

void FoldHeadsAt(Rewriter& rewriter, int index) {
  constexpr const char* kFlags[] = {"query_heads_last", "key_heads_last", "value_heads_last"};
  std::vector<int> inputs = rewriter.op(index).inputs;
  for (size_t i = 0; i < 3; ++i) {
    const int producer = rewriter.ProducerOf(inputs[i]);
    if (producer < 0 || rewriter.op(index).params.count(kFlags[i]) != 0) continue;
    if (!SwapsHeads(AxisOrder(rewriter.op(producer), rewriter.operand(inputs[i])))) continue;
    inputs[i] = rewriter.op(producer).inputs[0];
    SetFlag(rewriter.op(index), kFlags[i]);
  }
  rewriter.SetInputs(index, std::move(inputs));
  const int output = rewriter.op(index).outputs[0];
  if (!rewriter.HasOneUse(output) || rewriter.op(index).params.count("output_heads_last") != 0) {
    return;
  }
  const int consumer = rewriter.operand(output).consumers[0];
  const Operator& op = rewriter.op(consumer);
  if (op.outputs.size() != 1) return;
  if (!SwapsHeads(AxisOrder(op, rewriter.operand(op.outputs[0])))) return;
  rewriter.GiveOutput(consumer, index);
  SetFlag(rewriter.op(index), "output_heads_last");
}

}  // namespace

void FoldHeads(Graph& graph, const PassContext& context) {
  if (!context.HasLayer("oort.Attention")) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    if (!rewriter.dead(index) && IsAttention(rewriter.op(index))) FoldHeadsAt(rewriter, index);
  }
  rewriter.Finish();
}

}  // namespace oort
