// SPDX-License-Identifier: MIT
#include "decoder/draft_heads.h"

#include <string>
#include <utility>

#include "core/problems.h"
#include "decoder/decoder_graph.h"
#include "decoder/graph_writer.h"
#include "decoder/used_tensors.h"
#include "oort/error.h"

namespace oort {
namespace {

class DraftHeadsWriter {
 public:
  DraftHeadsWriter(const DraftHeadsFiles& files, int64_t hidden, int64_t vocabulary)
      : files_(files), tensors_(files.tensors), hidden_(hidden), vocabulary_(vocabulary) {}

  Graph Write() {
    const int input = graph_.AddInput("pnnx_input_0", DType::kF32, Shape{Shape::kUnknown, hidden_});
    std::vector<int> logits;
    for (int64_t i = 0; i < files_.heads; ++i) logits.push_back(Head(std::to_string(i), input));
    graph_.Add({"pnnx.Output", "pnnx_output_0"}, logits, 0);
    for (const auto& [name, placed] : tensors_.table().tensors()) {
      if (tensors_.IsUsed(name)) continue;
      throw Error(ErrorCode::kUnsupported,
                  "the heads have a tensor " + Quote(name) +
                      ", which has no place in heads of layers x + silu(W x + b) and a matrix");
    }
    return graph_.Take();
  }

 private:
  int Head(const std::string& head, int x) {
    for (int64_t i = 0; i < files_.layers; ++i) {
      const std::string layer = head + "." + std::to_string(i);
      Written linear = LinearOf(layer + ".linear", hidden_);
      linear.Attach("bias", tensors_.Vector(layer + ".linear.bias", hidden_))
          .Set("activation", Value(std::string("silu")));
      const int added = graph_.AddOne(std::move(linear), {x});
      graph_.SetHint(added, DType::kF32, {Shape::kUnknown, hidden_});
      Written sum{"pnnx.Expression", layer + ".sum"};
      sum.params["expr"] = Parameter("add(@0,@1)");
      x = graph_.AddOne(std::move(sum), {x, added});
      graph_.SetHint(x, DType::kF32, {Shape::kUnknown, hidden_});
    }
    return graph_.AddOne(LinearOf(head + "." + std::to_string(files_.layers), vocabulary_), {x});
  }

  Written LinearOf(const std::string& name, int64_t rows) {
    Written linear{"oort.QuantizedLinear", name};
    return linear.AttachWeight(tensors_.Matrix(name, rows, hidden_))
        .Set("in_features", Value(hidden_))
        .Set("out_features", Value(Value::List{Value(rows)}));
  }

  const DraftHeadsFiles& files_;
  UsedTensors tensors_;
  const int64_t hidden_, vocabulary_;
  GraphWriter graph_;
};

}  // namespace

Graph BuildDraftHeads(const DraftHeadsFiles& files, int64_t hidden, int64_t vocabulary) {
  return DraftHeadsWriter(files, hidden, vocabulary).Write();
}

void AddHidden(Graph& graph) {
  const std::vector<int> outputs = graph.OutputOperators();
  const Operator& output = graph.operators[static_cast<size_t>(outputs.at(0))];
  int operand = output.inputs.at(kLogitsOutput);
  // Logits may be scaled or cut behind the product.
  while (true) {
    const int producer = graph.operands[static_cast<size_t>(operand)].producer;
    if (producer < 0) break;
    const Operator& op = graph.operators[static_cast<size_t>(producer)];
    if (op.inputs.size() != 1) break;
    operand = op.inputs[0];
    if (op.type == "oort.QuantizedLinear" || op.type == "nn.Linear") {
      graph.AddInput(outputs[0], operand);
      return;
    }
    if (op.type != "pnnx.Expression") break;
  }
  throw Error(ErrorCode::kUnsupported,
              "heads cannot guess for this model: its logits are not one product of what its last "
              "layer gives; take a draft model, or draft by n-grams");
}

}  // namespace oort
