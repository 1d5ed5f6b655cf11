// SPDX-License-Identifier: MIT
#include "cli/examine.h"

#include <algorithm>
#include <set>

#include "cli/inputs.h"

namespace oort::cli {
namespace {

/// Takes the place of an operator that cannot be made, so that the others still are.
constexpr const char* kStandIn = "oort.StandIn";

class StandIn : public Layer {
 public:
  explicit StandIn(const LayerInit& init) : outputs_(init.op().outputs.size()) {}
  std::vector<Value> Infer(const Args&) const override {
    return std::vector<Value>(outputs_, Value::Deferred());
  }
  void Forward(const Context&, const Args&, std::span<Value>) const override {
    throw Error(ErrorCode::kUnsupported, "stands in for an operator that cannot be made");
  }

 private:
  size_t outputs_;
};

/// The message without the "operator 'x' (type, line 7): " that tells its place.
std::string WithoutPlace(const Problem& problem) {
  if (problem.operator_name.empty() || !problem.message.starts_with("operator '")) {
    return problem.message;
  }
  const size_t end = problem.message.find("): ");
  return end == std::string::npos ? problem.message : problem.message.substr(end + 3);
}

class Examination {
 public:
  Examination(const ModelFiles& files, LoadOptions load) : files_(files), load_(std::move(load)) {
    stand_ins_.Add(OperatorSchema({kStandIn}, "nothing").FreeInputs().Open().Outputs(0, -1),
                   Create<StandIn>());
  }

  Diagnosis Run() {
    if (!Try([&] { graph_ = ReadPnnxParam(*files_.OpenParam()); })) {
      diagnosis_.weights = "not reached";
      return diagnosis_;
    }
    CountOperators();
    ReadWeights();
    for (const Problem& problem : RuntimeGraph::Diagnose(graph_, load_)) Add(problem);
    const bool structure_holds =
        std::none_of(diagnosis_.findings.begin(), diagnosis_.findings.end(),
                     [](const Finding& finding) { return finding.first.operator_name.empty(); });
    if (structure_holds) BuildWhatCanBe();
    return diagnosis_;
  }

 private:
  void CountOperators() {
    std::set<std::string> types;
    for (const Operator& op : graph_.operators) types.insert(op.type);
    diagnosis_.operators = graph_.operators.size();
    diagnosis_.types = types.size();
  }

  void ReadWeights() {
    const bool needed = std::any_of(graph_.operators.begin(), graph_.operators.end(),
                                    [](const Operator& op) { return !op.attributes.empty(); });
    has_weights_ = !needed;
    diagnosis_.weights = needed ? "missing" : "none needed";
    if (files_.bin.empty()) return;
    ReadOptions read;
    read.verify_checksums = load_.verify_checksums;
    has_weights_ =
        Try([&] { graph_ = ReadPnnx(*files_.OpenParam(), ByteSource::File(files_.bin), read); });
    diagnosis_.weights = has_weights_ ? "checked" : "damaged";
  }

  /// Makes all layers that can be made: parameters that only a layer itself can judge.
  void BuildWhatCanBe() {
    const bool healthy = diagnosis_.findings.empty() && has_weights_;
    if (healthy) {
      Try([&] { TryShapes(*RuntimeGraph::Build(graph_, load_)); });
      return;
    }
    Graph graph = graph_;
    Substitute(graph);
    LoadOptions load = load_;
    load.registry = &stand_ins_;
    load.disabled_passes = {"all"};  // folding would stop at the first problem
    Try([&] { RuntimeGraph::Build(std::move(graph), load); });
  }

  void TryShapes(const RuntimeGraph& graph) {
    const bool known =
        std::all_of(graph.inputs().begin(), graph.inputs().end(),
                    [](const Port& port) { return port.has_shape && port.shape.IsKnown(); });
    if (!known) return;
    const std::vector<Tensor> traced = InputMetas(graph.inputs(), {});
    graph.Plan(traced);
    TryLargerBatch(graph, traced);
  }

  /// Where the inputs were traced with a batch of one: whether the trace fixed that.
  void TryLargerBatch(const RuntimeGraph& graph, std::vector<Tensor> inputs) {
    bool changed = false;
    for (Tensor& input : inputs) {
      Shape shape = input.shape();
      if (shape.rank() < 2 || shape[0] != 1) continue;
      shape[0] = 2;
      input = Tensor::Meta(input.dtype(), shape);
      changed = true;
    }
    if (!changed) return;
    try {
      graph.Plan(inputs);
    } catch (const Error& error) {
      diagnosis_.notes.push_back("a batch of 2 would not run: " + std::string(error.what()));
    }
  }

  /// Puts a stand-in for what was found wrong, lacks its weights, or needs a constant of such.
  void Substitute(Graph& graph) const {
    std::vector<bool> constant(graph.operands.size()), replaced(graph.operands.size());
    const auto at = [](std::vector<bool>& flags, int index) -> std::vector<bool>::reference {
      return flags[static_cast<size_t>(index)];
    };
    for (const int index : graph.TopologicalOrder()) {
      Operator& op = graph.operators[static_cast<size_t>(index)];
      if (op.type == "pnnx.Input" || op.type == "pnnx.Output") continue;
      bool all_constant = true, lost_constant = false;
      for (const int input : op.inputs) {
        all_constant = all_constant && at(constant, input);
        lost_constant = lost_constant || (at(constant, input) && at(replaced, input));
      }
      const bool lacks_weights = !has_weights_ && !op.attributes.empty();
      const bool replace = lost_constant || lacks_weights || blamed_.count(op.name) > 0;
      for (const int output : op.outputs) {
        at(constant, output) = all_constant;
        at(replaced, output) = replace;
      }
      if (!replace) continue;
      op.type = kStandIn;
      op.params.clear();
      op.attributes.clear();
    }
  }

  /// Runs a step; what it throws is a finding.
  template <typename Step>
  bool Try(const Step& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      for (const Problem& problem : error.problems()) Add(problem);
      if (error.problems().empty()) Add({error.code(), error.what(), "", "", 0});
      return false;
    }
  }

  void Add(const Problem& problem) {
    const LayerRegistry& registry = LayerRegistry::Global();
    const std::string& type = problem.operator_type;
    const bool unknown = problem.code == ErrorCode::kUnsupported && !type.empty() &&
                         registry.Schema(type) == nullptr;
    const std::string message = unknown ? "unknown operator" : WithoutPlace(problem);
    ++diagnosis_.places;
    blamed_.insert(problem.operator_name);
    for (Finding& finding : diagnosis_.findings) {
      if (finding.message == message && finding.first.operator_type == type) {
        ++finding.count;
        return;
      }
    }
    diagnosis_.findings.push_back({unknown, problem, message, 1,
                                   unknown ? registry.Similar(type) : std::vector<std::string>()});
  }

  const ModelFiles& files_;
  LoadOptions load_;
  LayerRegistry stand_ins_{LayerRegistry::Global()};
  Graph graph_;
  bool has_weights_ = false;
  std::set<std::string> blamed_;  // names of operators
  Diagnosis diagnosis_;
};

}  // namespace

Diagnosis Examine(const ModelFiles& files, LoadOptions load) {
  return Examination(files, std::move(load)).Run();
}

}  // namespace oort::cli
