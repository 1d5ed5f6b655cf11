// SPDX-License-Identifier: MIT
#include "decoder/traced.h"

#include <set>

#include "decoder/trace_reader.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// The one input of an operator that is not constant, -1 if there are others.
int OnlyInput(Rewriter& rewriter, const Operator& op) {
  std::set<int> found;
  for (const int input : op.inputs) {
    if (rewriter.ProducerOf(input, "pnnx.Attribute") == nullptr) found.insert(input);
  }
  return found.size() == 1 ? *found.begin() : -1;
}

/// Only rows whose logits somebody wants go through the norm and the head at the end: through all
/// that depends on nothing but one operand.
void ChooseRows(Graph& graph, int wanted) {
  Rewriter rewriter(graph);
  int reader = graph.OutputOperators()[0];
  int chosen = rewriter.op(reader).inputs[0];
  while (true) {
    const int producer = rewriter.ProducerOf(chosen);
    const Operator& op = rewriter.op(producer);
    const int input = OnlyInput(rewriter, op);
    if (input < 0 || op.outputs.size() != 1 || op.type == "oort.QuantizedEmbedding") break;
    reader = producer;
    chosen = input;
  }
  Operator select;
  select.type = "torch.index_select";
  select.name = "wanted";
  select.params["dim"] = Parameter("0");
  select.inputs = {chosen, wanted};
  select.input_names.resize(2);
  const int rows = graph.AddOperand("wanted");
  select.outputs = {rows};
  graph.AddOperator(std::move(select));
  for (size_t i = 0; i < rewriter.op(reader).inputs.size(); ++i) {
    if (rewriter.op(reader).inputs[i] == chosen) rewriter.ReplaceInput(reader, i, rows);
  }
}

}  // namespace

TracedDecoder MakeDecoder(const Graph& traced) {
  TraceReader reader(traced);
  TracedDecoder decoder = reader.Read();
  RemoveDeadCode(decoder.graph, {});
  const int wanted = decoder.graph.FindOperator("pnnx_input_2");
  ChooseRows(decoder.graph, decoder.graph.operators[static_cast<size_t>(wanted)].outputs[0]);
  return decoder;
}

}  // namespace oort
