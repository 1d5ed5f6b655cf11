// SPDX-License-Identifier: MIT
#include "decoder/decoder_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/checked.h"
#include "oort/error.h"

namespace oort {
namespace {

/// 0 where it has no such number.
size_t IntOf(const Operator& op, const std::string& name) {
  const auto found = op.params.find(name);
  if (found == op.params.end() || !found->second.value().IsInt()) return 0;
  return static_cast<size_t>(std::max<int64_t>(0, found->second.value().AsInt()));
}

/// Takes in what an operator keeps of each sequence.
void AddState(const Operator& op, StateShape& state) {
  const auto number = [&](const char* name) { return static_cast<int64_t>(IntOf(op, name)); };
  const bool scans = IsScan(op);
  if (!scans && op.type != "oort.ShortConvolution") return;
  state.layers = std::max(state.layers, CheckedAdd<int64_t>(number("layer"), 1));
  if (scans) {
    state.recurrence =
        CheckedMultiply(CheckedMultiply(number("heads"), number("head_dim")), number("size"));
  } else if (const auto weight = op.attributes.find("weight"); weight != op.attributes.end()) {
    const Shape& shape = weight->second.shape();
    if (shape.rank() == 2 && shape[1] > 1) {
      state.inputs = CheckedMultiply(shape[0], shape[1] - 1);
    }
  }
}

}  // namespace

size_t WeightBytes(const Graph& graph) {
  size_t bytes = 0;
  std::set<const Buffer*> seen;  // a head may be the embeddings
  for (const Operator& op : graph.operators) {
    for (const auto& [name, tensor] : op.attributes) {
      if (seen.insert(tensor.buffer().get()).second) bytes += tensor.bytes();
    }
  }
  return bytes;
}

StateShape StateOf(const Graph& graph) {
  StateShape state;
  for (const Operator& op : graph.operators) AddState(op, state);
  return state;
}

DecoderGraph::DecoderGraph(Graph written)
    : graph(std::move(written)), state(StateOf(graph)), weight_bytes(WeightBytes(graph)) {
  for (const Operator& op : graph.operators) {
    if (op.type == "oort.PagedAttention") {
      attention.push_back(op.name);
      const auto layer = static_cast<int64_t>(IntOf(op, "layer"));
      cache_layers = std::max(cache_layers, CheckedAdd<int64_t>(layer, 1));
    }
    const auto original = op.params.find("original_context");
    if (op.type == "oort.RotaryAngles" && original != op.params.end()) {
      short_context = original->second.value().AsInt();
    }
    // A rank has some of the experts, and reads as many of them as come to its share.
    const size_t experts = std::max(IntOf(op, "experts"), IntOf(op, "all_experts"));
    const size_t used = IntOf(op, "used");
    // Of a table a step reads a row, and the search for the best token reads a head that is counted
    // where it is.
    if (op.type == "oort.QuantizedEmbedding" || op.type == "oort.QuantizedArgmax") continue;
    for (const auto& [name, tensor] : op.attributes) {
      const bool is_mixture = op.type == "oort.ExpertMixture" && experts > 0;
      step_bytes += is_mixture ? tensor.bytes() / experts * used : tensor.bytes();
    }
  }
}

namespace {

/// Whether logits are nothing but products with one weight.
bool IsPlainHead(const Operator& op) {
  if (op.type != "oort.QuantizedLinear" || op.inputs.size() != 1) return false;
  const auto is_weight = [](const auto& attribute) {
    return attribute.first == "weight" || attribute.first == "scale";
  };
  const auto is_known = [](const auto& param) {
    return param.first == "in_features" || param.first == "out_features" || param.first == "format";
  };
  return std::ranges::all_of(op.attributes, is_weight) && std::ranges::all_of(op.params, is_known);
}

/// Picks the argmax of the logits or, where it `may_skip` them, from what they are
/// made of.
Operator ArgmaxOf(const Graph& graph, int logits, bool may_skip) {
  Operator pick;
  pick.name = "argmax";
  pick.type = "oort.Argmax";
  pick.inputs = {logits};
  const int producer = graph.operands[static_cast<size_t>(logits)].producer;
  if (!may_skip || producer < 0) return pick;
  const Operator& head = graph.operators[static_cast<size_t>(producer)];
  if (!IsPlainHead(head)) return pick;
  pick.type = "oort.QuantizedArgmax";
  pick.inputs = head.inputs;
  pick.params = head.params;
  const std::vector<int64_t> rows = head.params.at("out_features").value().AsInts();
  pick.params["out_features"] = Parameter::FromValue(Value(rows.at(0)));
  pick.attributes = head.attributes;
  return pick;
}

}  // namespace

void AddArgmax(Graph& graph, bool may_skip_logits) {
  const std::vector<int> outputs = graph.OutputOperators();
  if (outputs.size() != 1 || graph.operators[static_cast<size_t>(outputs[0])].inputs.size() != 1) {
    throw Error(ErrorCode::kInvalidModel, "a language model has one output, its logits");
  }
  const int logits = graph.operators[static_cast<size_t>(outputs[0])].inputs[0];
  Operator pick = ArgmaxOf(graph, logits, may_skip_logits);
  const int tokens = graph.AddOperand("argmax");
  pick.outputs = {tokens};
  graph.AddOperator(std::move(pick));
  graph.AddInput(outputs[0], tokens);
}

}  // namespace oort
