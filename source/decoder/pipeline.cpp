// SPDX-License-Identifier: MIT
#include "decoder/pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decoder/decoder_graph.h"
#include "graph/passes/rewrite.h"
#include "oort/error.h"

namespace oort {
namespace {

/// A place in the order of the operators behind which nothing but one operand is read: what two
/// layers have between them.
struct CutPlace {
  size_t after = 0;  ///< an index into the order
  int operand = -1;
  int64_t layers = 0;  ///< in front of it
  size_t bytes = 0;    ///< of weights in front of it
};

class LayerCutter {
 public:
  LayerCutter(Graph& graph, const PipelineOptions& options) : graph_(graph), options_(options) {}

  int64_t Run() {
    SortOperators();
    const std::vector<CutPlace> cuts = Choose(FindPlaces());
    const size_t rank = static_cast<size_t>(options_.rank);
    const bool first = options_.rank == 0, last = options_.rank + 1 == options_.ranks;
    // Behind the last operator of the rank before, up to this one's.
    const size_t begin = first ? 0 : cuts[rank - 1].after + 1;
    const size_t end = last ? order_.size() : cuts[rank].after + 1;
    const int64_t layers = Renumber(begin, end);
    if (!first) Receive(cuts[rank - 1].operand);
    const int sent = last ? -1 : Send(cuts[rank].operand);
    Finish(kLogitsOutput, options_.vocabulary, sent);
    Finish(kArgmaxOutput, 0, sent);
    RemoveOthers(begin, end);
    return layers;
  }

 private:
  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  static bool HasKeys(const Operator& op) { return op.type == "oort.PagedAttention"; }
  static bool HasState(const Operator& op) {
    return IsScan(op) || op.type == "oort.ShortConvolution";
  }

  /// What depends on places of tokens alone, and has no table, every rank computes for itself.
  void SortOperators() {
    shared_.assign(graph_.operators.size(), false);
    for (const int index : graph_.TopologicalOrder()) {
      const Operator& op = Op(index);
      if (op.type == "pnnx.Output") continue;
      const bool shared =
          op.type != "oort.QuantizedEmbedding" && std::ranges::all_of(op.inputs, [&](int operand) {
            const int from = graph_.operands[static_cast<size_t>(operand)].producer;
            return from >= 0 && shared_[static_cast<size_t>(from)];
          });
      shared_[static_cast<size_t>(index)] = shared;
      if (!shared) order_.push_back(index);
    }
  }

  std::vector<CutPlace> FindPlaces() {
    std::vector<int> uses(graph_.operands.size());  // that are still to come
    for (size_t i = 0; i < uses.size(); ++i) {
      uses[i] = static_cast<int>(graph_.operands[i].consumers.size());
    }
    std::set<int> live;
    std::vector<CutPlace> places;
    CutPlace place;
    // Since the last place. A layer may have both: then there is no place between them.
    int64_t keys = 0, scans = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Operator& op = Op(order_[i]);
      for (const int operand : op.inputs) {
        if (--uses[static_cast<size_t>(operand)] == 0) live.erase(operand);
      }
      for (const int operand : op.outputs) {
        if (uses[static_cast<size_t>(operand)] > 0) live.insert(operand);
      }
      keys += HasKeys(op) ? 1 : 0;
      scans += IsScan(op) ? 1 : 0;
      // A row of the embeddings is read, and the head once, whoever picks the token.
      if (op.type != "oort.QuantizedEmbedding" && op.type != "oort.QuantizedArgmax") {
        for (const auto& [name, tensor] : op.attributes) place.bytes += tensor.bytes();
      }
      if (live.size() != 1) continue;
      place.layers += std::max(std::exchange(keys, 0), std::exchange(scans, 0));
      place.after = i;
      place.operand = *live.begin();
      places.push_back(place);
    }
    bytes_ = place.bytes;
    layers_ = place.layers + std::max(keys, scans);
    std::erase_if(places,
                  [&](const CutPlace& at) { return at.layers < 1 || at.layers >= layers_; });
    return places;
  }

  /// Where each rank but the last ends.
  std::vector<CutPlace> Choose(const std::vector<CutPlace>& places) {
    std::vector<CutPlace> cuts;
    for (int rank = 1; rank < options_.ranks; ++rank) {
      const double want = static_cast<double>(bytes_) * rank / options_.ranks;
      const int64_t before = cuts.empty() ? 0 : cuts.back().layers;
      const CutPlace* best = nullptr;
      double nearest = std::numeric_limits<double>::infinity();
      for (const CutPlace& place : places) {
        const double distance = std::abs(static_cast<double>(place.bytes) - want);
        const bool all_have =
            place.layers > before && layers_ - place.layers >= options_.ranks - rank;
        if (!all_have || distance >= nearest) continue;
        nearest = distance;
        best = &place;
      }
      if (best == nullptr) {
        throw Error(ErrorCode::kUnsupported,
                    std::to_string(options_.ranks) + " ranks cannot share its " +
                        std::to_string(layers_) + " layers: take fewer ranks, or another split");
      }
      cuts.push_back(*best);
    }
    return cuts;
  }

  /// The cache of a rank, and its states of sequences, have its own layers alone.
  int64_t Renumber(size_t begin, size_t end) {
    Renumber(begin, end, HasState);
    return Renumber(begin, end, HasKeys);
  }
  int64_t Renumber(size_t begin, size_t end, bool (*is_one)(const Operator&)) {
    int64_t count = 0, lowest = std::numeric_limits<int64_t>::max();
    for (size_t i = begin; i < end; ++i) {
      if (!is_one(Op(order_[i]))) continue;
      lowest = std::min(lowest, LayerOf(Op(order_[i])));
      ++count;
    }
    for (size_t i = begin; i < end; ++i) {
      Operator& op = Op(order_[i]);
      if (is_one(op)) op.params["layer"] = Parameter::FromValue(Value(LayerOf(op) - lowest));
    }
    return count;
  }
  static int64_t LayerOf(const Operator& op) { return IntParameter(op, "layer"); }

  int AddPass(const std::string& name, int64_t width, int from, int to,
              std::vector<std::pair<std::string, int>> inputs) {
    Operator op;
    op.type = "oort.Pass";
    op.name = name;
    for (const auto& [input, operand] : inputs) {
      op.input_names.push_back(input);
      op.inputs.push_back(operand);
    }
    for (const auto& [parameter, value] :
         {std::pair<const char*, int64_t>{"width", width}, {"from", from}, {"to", to}}) {
      op.params[parameter] = Parameter::FromValue(Value(value));
    }
    const int output = graph_.AddOperand(name);
    op.outputs = {output};
    graph_.AddOperator(std::move(op));
    return output;
  }

  /// Both ends of a handing over have the same name, by which they know each other.
  static std::string NameOfPass(int from) { return "behind_rank_" + std::to_string(from); }
  int InputAt(size_t number) { return Op(graph_.InputOperators()[number]).outputs[0]; }

  void Receive(int operand) {
    const int before = options_.rank - 1;
    const int received =
        AddPass(NameOfPass(before), options_.hidden, before, options_.rank, {{"like", InputAt(0)}});
    graph_.ReplaceUses(operand, received);
  }

  int Send(int operand) {
    return AddPass(NameOfPass(options_.rank), options_.hidden, options_.rank, options_.rank + 1,
                   {{"input", operand}});
  }

  /// What the last rank has found out goes to the first one, which answers.
  void Finish(int output, int64_t width, int sent) {
    const int op = graph_.OutputOperators()[0];
    const size_t place = static_cast<size_t>(output);
    const int last = options_.ranks - 1, found = Op(op).inputs[place];
    const std::string name =
        output == kLogitsOutput ? "logits_of_last_rank" : "tokens_of_last_rank";
    std::vector<std::pair<std::string, int>> inputs = {{"input", found}};
    if (sent >= 0) inputs = {{"like", InputAt(2)}, {"after", sent}};
    const int all = AddPass(name, width, last, 0, std::move(inputs));
    graph_.ReplaceInput(op, place, all);
  }

  void RemoveOthers(size_t begin, size_t end) {
    std::vector<bool> dead(graph_.operators.size(), false);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (i < begin || i >= end) dead[static_cast<size_t>(order_[i])] = true;
    }
    graph_.Remove(dead);
  }

  Graph& graph_;
  const PipelineOptions options_;
  std::vector<bool> shared_;
  std::vector<int> order_;  // of operators that one rank computes
  int64_t layers_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

int64_t CutLayers(Graph& graph, const PipelineOptions& options) {
  const std::vector<int> outputs = graph.OutputOperators();
  const bool is_decoder = graph.InputOperators().size() == 3 && outputs.size() == 1 &&
                          graph.operators[static_cast<size_t>(outputs[0])].inputs.size() == 2;
  if (!is_decoder) {
    throw Error(ErrorCode::kUnsupported, "a graph that is no decoder cannot be cut into layers");
  }
  return LayerCutter(graph, options).Run();
}

}  // namespace oort
