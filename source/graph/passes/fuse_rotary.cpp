// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {

void FuseRotary(Graph& graph, const PassContext& context) {
  if (!context.on_gpu || !context.HasLayer("oort.PagedAttention")) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    Operator& attention = rewriter.op(index);
    if (attention.type != "oort.PagedAttention" || attention.inputs.size() != 3) continue;
    const int producer = rewriter.ProducerOf(attention.inputs[0]);
    if (producer < 0 || rewriter.op(producer).type != "oort.Rotary") continue;
    if (rewriter.NamesInputs(index) || rewriter.NamesInputs(producer)) continue;
    Operator& rotary = rewriter.op(producer);
    const bool alone =
        rotary.inputs.size() == 3 && rotary.outputs.size() == 2 &&
        rotary.outputs[0] == attention.inputs[0] && rotary.outputs[1] == attention.inputs[1] &&
        rewriter.HasOneUse(rotary.outputs[0]) && rewriter.HasOneUse(rotary.outputs[1]);
    // Heads of another size would turn differently.
    const Value turned = ParameterValue(rotary, "head_dim");
    const Value head = ParameterValue(attention, "head_dim");
    if (!alone || !turned.IsInt() || !head.IsInt() || turned.AsInt() != head.AsInt()) continue;
    if (rotary.params.count("interleaved") != 0) {
      attention.params["interleaved"] = rotary.params.at("interleaved");
    }
    rewriter.SetInputs(index,
                       {rotary.inputs[0], rotary.inputs[1], attention.inputs[2], rotary.inputs[2]});
    rewriter.Kill(producer);
  }
  rewriter.Finish();
}

}  // namespace oort
