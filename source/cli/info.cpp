// SPDX-License-Identifier: MIT
#include <iostream>
#include <map>

#include "cli/inputs.h"
#include "cli/language_info.h"
#include "cli/model.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

struct InfoArguments {
  ModelOptions model;
  std::vector<std::string> shapes;
  bool json = false;
};

struct Totals {
  int64_t parameters = 0;
  double flops = 0, bytes = 0;
};

/// Elements of weights that stay in a few bits: their attributes count bytes.
int64_t QuantizedParameters(const Operator& op) {
  const auto number = [&](const char* key) {
    const auto found = op.params.find(key);
    return found == op.params.end() ? Value() : found->second.value();
  };
  if (op.type == "oort.QuantizedEmbedding") {
    return number("num_embeddings").AsInt() * number("embedding_dim").AsInt();
  }
  int64_t rows = 0;
  for (int64_t out : number("out_features").AsInts()) rows += out;
  return rows * number("in_features").AsInt();
}

/// How many elements the weights of each operator have.
std::map<std::string, int64_t> CountParameters(const Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const Operator& op : graph.operators) {
    if (op.type.starts_with("oort.Quantized")) {
      counts[op.name] = QuantizedParameters(op);
      continue;
    }
    for (const auto& [name, tensor] : op.attributes) counts[op.name] += tensor.elements();
  }
  return counts;
}

struct AnyModel {
  std::shared_ptr<const LanguageModel> language;  ///< null for other networks
  std::shared_ptr<const RuntimeGraph> graph;
  std::vector<Tensor> inputs;
};

/// A language model shows the step of one token, unless shapes are given.
AnyModel LoadAny(const InfoArguments& options) {
  AnyModel any;
  if (HoldsLanguageModel(options.model.model)) {
    LanguageModelOptions load;
    load.device = options.model.device.Get();
    any.language = LanguageModel::Load(options.model.model, load);
    any.graph = any.language->graph();
    any.inputs.assign(any.graph->inputs().size(), Tensor::Meta(DType::kI32, Shape{1}));
  } else {
    any.graph = options.model.LoadModel();
  }
  if (!any.language || !options.shapes.empty()) {
    any.inputs = InputMetas(any.graph->inputs(), options.shapes);
  }
  return any;
}

Totals Sum(const PlanReport& plan, const std::map<std::string, int64_t>& parameters) {
  Totals totals;
  for (const auto& [name, count] : parameters) totals.parameters += count;
  for (const NodeReport& node : plan.nodes) {
    totals.flops += node.work.flops;
    totals.bytes += node.work.bytes;
  }
  return totals;
}

Json PortsJson(const std::vector<Port>& ports, const std::vector<Tensor>& metas) {
  Json list = Json::array();
  for (size_t i = 0; i < ports.size(); ++i) {
    Json json = {{"name", ports[i].name}, {"operand", ports[i].operand}};
    if (ports[i].has_shape) json["traced_shape"] = ToJson(ports[i].shape);
    if (i < metas.size() && metas[i].defined()) {
      json["shape"] = ToJson(metas[i].shape());
      json["dtype"] = Name(metas[i].dtype());
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json NodeJson(const NodeReport& node, int64_t parameters) {
  Json json = {{"name", node.name},        {"type", node.type},        {"line", node.line},
               {"inputs", node.inputs},    {"outputs", node.outputs},  {"parameters", parameters},
               {"flops", node.work.flops}, {"bytes", node.work.bytes}, {"sharing", node.sharing}};
  json["device"] = node.device.ToString();
  if (!node.fallback.empty()) json["fallback"] = node.fallback;
  json["offset"] = node.in_arena ? Json(node.first_offset) : Json(nullptr);
  return json;
}

void PrintPorts(const char* title, const std::vector<Port>& ports,
                const std::vector<Tensor>& metas) {
  Table table({{title}, {"operand"}, {"shape"}, {"as traced"}});
  for (size_t i = 0; i < ports.size(); ++i) {
    const bool known = i < metas.size() && metas[i].defined();
    table.Row({ports[i].name, ports[i].operand, known ? metas[i].ToString() : "depends on data",
               ports[i].has_shape ? ports[i].shape.ToString() : "unknown"});
  }
  table.Print(std::cout);
  std::cout << '\n';
}

/// Why operators run on the CPU although the model does not, and how many do.
std::map<std::string, int> Fallbacks(const PlanReport& plan) {
  std::map<std::string, int> counts;
  for (const NodeReport& node : plan.nodes) {
    if (!node.fallback.empty()) ++counts[node.type + " " + node.fallback];
  }
  return counts;
}

/// "cuda:0, view of 5"
std::string PlaceText(const NodeReport& node) {
  if (node.device == Device::Cpu()) return node.sharing;
  return node.device.ToString() + (node.sharing.empty() ? "" : ", " + node.sharing);
}

void PrintNodes(const PlanReport& plan, const std::map<std::string, int64_t>& parameters) {
  Table table({{"operator"},
               {"type"},
               {"inputs"},
               {"outputs"},
               {"params", Table::kRight},
               {"FLOPs", Table::kRight},
               {"bytes", Table::kRight},
               {"offset", Table::kRight},
               {"memory"}});
  for (const NodeReport& node : plan.nodes) {
    const auto found = parameters.find(node.name);
    table.Row({SingleLine(node.name), node.type, Join(node.inputs, " "), Join(node.outputs, " "),
               found == parameters.end() ? "" : FormatCount(static_cast<double>(found->second)),
               node.work.flops > 0 ? FormatCount(node.work.flops) : "",
               FormatBytes(node.work.bytes), node.in_arena ? std::to_string(node.first_offset) : "",
               PlaceText(node)});
  }
  table.Print(std::cout);
  std::cout << '\n';
}

void PrintTotals(const PlanReport& plan, const Totals& totals) {
  const auto bytes = [](size_t count) { return FormatBytes(static_cast<double>(count)); };
  Table table({{""}, {""}});
  table.Row({"operators", std::to_string(plan.nodes.size())});
  table.Row({"parameters", FormatCount(static_cast<double>(totals.parameters))});
  table.Row({"work", FormatCount(totals.flops) + (totals.flops < 1000 ? " " : "") + "FLOPs, " +
                         FormatBytes(totals.bytes) + " read and written"});
  table.Row({"weights", bytes(plan.memory.weights)});
  table.Row({"activations", bytes(plan.memory.arena) + " planned, " +
                                bytes(plan.memory.arena_bound) + " at one time, " +
                                bytes(plan.memory.without_reuse) + " without reuse"});
  if (plan.memory.device_weights > 0 || plan.memory.device_arena > 0) {
    table.Row({"on the GPU", bytes(plan.memory.device_weights) + " of weights, " +
                                 bytes(plan.memory.device_arena) + " of activations"});
  }
  for (const auto& [reason, count] : Fallbacks(plan)) {
    table.Row({"on the CPU", std::to_string(count) + " x " + SingleLine(reason)});
  }
  table.Row({"workspace", bytes(plan.memory.workspace) + " (within the activations)"});
  table.Row({"memory", bytes(plan.memory.Held()) + " with " + bytes(plan.memory.structures) +
                           " of operators, names and plans; " + bytes(plan.memory.Peak()) +
                           " at most, while it is loaded or runs"});
  table.Print(std::cout);
}

int Info(const InfoArguments& options) {
  const auto [language, graph, inputs] = LoadAny(options);
  const PlanReport plan =
      graph->Plan(inputs, options.model.threads == 0 ? 1 : options.model.threads);
  const std::vector<Tensor> outputs = graph->InferShapes(inputs);
  const auto parameters = CountParameters(graph->graph());
  const Totals totals = Sum(plan, parameters);
  if (!options.json) {
    if (language) PrintLanguageInfo(*language);
    PrintPorts("input", graph->inputs(), inputs);
    PrintPorts("output", graph->outputs(), outputs);
    PrintNodes(plan, parameters);
    PrintTotals(plan, totals);
    return 0;
  }
  Json nodes = Json::array();
  for (const NodeReport& node : plan.nodes) {
    const auto found = parameters.find(node.name);
    nodes.push_back(NodeJson(node, found == parameters.end() ? 0 : found->second));
  }
  Json json = {{"model", options.model.model},
               {"isa", Name(graph->isa())},
               {"inputs", PortsJson(graph->inputs(), inputs)},
               {"outputs", PortsJson(graph->outputs(), outputs)},
               {"operators", nodes},
               {"parameters", totals.parameters},
               {"flops", totals.flops},
               {"bytes", totals.bytes},
               {"memory",
                {{"weights", plan.memory.weights},
                 {"structures", plan.memory.structures},
                 {"held", plan.memory.Held()},
                 {"peak", plan.memory.Peak()},
                 {"arena", plan.memory.arena},
                 {"arena_bound", plan.memory.arena_bound},
                 {"without_reuse", plan.memory.without_reuse},
                 {"workspace", plan.memory.workspace}}}};
  if (language) json["language_model"] = LanguageInfoJson(*language);
  Print(std::cout, json);
  return 0;
}

}  // namespace

Action AddInfo(CLI::App& app) {
  auto options = std::make_shared<InfoArguments>();
  InfoArguments& o = *options;
  o.model.AddModel(app, kAnyModel);
  app.add_option("--shape", o.shapes, "Another shape than the traced one: in0=1,3,320,320")
      ->type_name("NAME=SHAPE");
  o.model.AddThreads(app);
  o.model.AddLoad(app);
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "The operators are those that run, after fusing; --no-passes shows those of the file.\n"
      "'offset' is where the output of an operator lies in the memory for activations;\n"
      "'memory' says whether it shares that place with an input.\n"
      "Example: what a larger picture would cost\n"
      "  oort info resnet18.pnnx.param --shape in0=1,3,448,448");
  return [options] { return Info(*options); };
}

}  // namespace oort::cli
