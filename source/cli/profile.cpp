// SPDX-License-Identifier: MIT
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/profile_report.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

struct Options {
  ModelOptions model;
  MeasuredRuns measured;
  int top = 15;
  std::string by = "operator";
  std::string html, trace, dot, param, svg;
  bool json = false;
};

/// The shapes and dtypes of this run in place of those of the trace.
void NoteShapes(Graph& graph, const Operator& op, std::span<const Value> values) {
  for (size_t i = 0; i < values.size() && i < op.outputs.size(); ++i) {
    if (!values[i].IsTensor()) continue;
    Operand& operand = graph.operands[static_cast<size_t>(op.outputs[i])];
    operand.has_shape = true;
    operand.shape = values[i].AsTensor().shape();
    operand.dtype = values[i].AsTensor().dtype();
  }
}

/// One run that looks at every result: sizes that depend on data are known only then.
void TakeGraph(ProfileReport& report, Session& session, const std::vector<Value>& inputs) {
  report.graph = session.graph().graph();
  const std::vector<int> ports = report.graph.InputOperators();
  for (size_t i = 0; i < ports.size() && i < inputs.size(); ++i) {
    NoteShapes(report.graph, report.graph.operators[static_cast<size_t>(ports[i])],
               std::span(inputs).subspan(i, 1));
  }
  RunOptions options;
  options.observer = [&](const NodeEvent& event) {
    NoteShapes(report.graph, event.op, event.outputs);
    auto& outputs = report.plan.nodes[static_cast<size_t>(event.index)].outputs;
    for (size_t i = 0; i < event.outputs.size(); ++i) {
      if (event.outputs[i].IsTensor()) outputs[i] = event.outputs[i].ToString();
    }
  };
  session.Run(inputs, options);
}

/// Profiled runs and others in turns, so that both see the same machine.
void Measure(ProfileReport& report, Session& session, const std::vector<Value>& inputs,
             const Options& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<Profile> runs(static_cast<size_t>(options.measured.runs));
  std::vector<double> walls;
  for (int i = 0; i < options.measured.warmup; ++i) session.Run(inputs);
  for (Profile& profile : runs) {
    const Clock::time_point start = Clock::now();
    session.Run(inputs);
    walls.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    RunOptions profiled;
    profiled.profile = &profile;
    session.Run(inputs, profiled);
  }
  Analyze(report, runs, std::move(walls));
}

/// Modules by the names in the file, because fusing leaves fewer of them.
void NameModules(ProfileReport& report, const std::string& model) {
  const ModuleMap of_file = FindModules(ReadPnnxParam(*FindModel(model).OpenParam()));
  const ModuleMap of_graph = FindModules(report.graph);
  for (ProfileOperator& op : report.operators) {
    const auto found = of_file.find(op.name);
    const ModuleMap& known = found == of_file.end() ? of_graph : of_file;
    if (const auto path = known.find(op.name); path != known.end()) op.module = path->second;
  }
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(ErrorCode::kIo, "cannot write '" + path + "'");
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void WriteFiles(const ProfileReport& report, const Options& options) {
  if (!options.html.empty()) WriteText(options.html, ProfileHtml(report));
  if (!options.trace.empty()) WriteText(options.trace, Dump(TraceJson(report)));
  if (!options.dot.empty()) WriteText(options.dot, ProfileDot(report));
  if (!options.param.empty()) WriteText(options.param, ProfileParam(report));
  if (options.svg.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.svg, error);
  const std::filesystem::path folder = options.svg;
  WriteText((folder / "roofline.svg").string(), RooflineSvg(report));
  WriteText((folder / "memory.svg").string(), MemorySvg(report));
  WriteText((folder / "graph.svg").string(), GraphSvg(report));
}

int RunProfile(const Options& options) {
  const auto graph = options.model.LoadModel();
  const std::vector<Tensor> inputs = options.measured.Inputs(graph->inputs());
  Session session(graph, options.model.ForSession());
  ProfileReport report;
  report.model = options.model.model;
  report.isa = graph->isa();
  report.threads = session.threads();
  report.runs = options.measured.runs;
  for (const Tensor& input : inputs) report.inputs.push_back(input.ToString());
  report.plan = graph->Plan(inputs, session.threads());
  const std::vector<Value> values(inputs.begin(), inputs.end());
  TakeGraph(report, session, values);
  report.roofs = MeasureRoofs(session.threads());
  Measure(report, session, values, options);
  NameModules(report, options.model.model);
  WriteFiles(report, options);
  if (options.json) {
    Print(std::cout, ProfileJson(report));
  } else {
    PrintProfile(std::cout, report, options.by, options.top);
  }
  return 0;
}

void AddOutputs(CLI::App& app, Options& o) {
  const auto file = [&](const char* name, std::string& target, const char* text) {
    app.add_option(name, target, text)->type_name("FILE");
  };
  app.add_flag("--json", o.json, "Print JSON: everything, whatever --by and --top say");
  file("--html", o.html, "A page that opens offline: roofline, tables, memory plan, graph");
  file("--trace", o.trace, "Trace events of one run, for ui.perfetto.dev or chrome://tracing");
  file("--dot", o.dot, "The graph as it runs, for Graphviz, coloured by share");
  file("--param", o.param, "The graph as it runs, for Netron (no weights)");
  app.add_option("--svg", o.svg, "Pictures: roofline.svg, memory.svg, graph.svg")
      ->type_name("FOLDER");
}

}  // namespace

Action AddProfile(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  o.model.AddModel(app);
  o.model.AddThreads(app);
  o.measured.Add(app, 100000);
  app.add_option("--by", o.by, "Rows of the table: operator, type or module")
      ->type_name("WHAT")
      ->capture_default_str()
      ->check(CLI::IsMember({"operator", "type", "module"}));
  app.add_option("--top", o.top, "Rows shown, the slowest; 0 for all")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  AddOutputs(app, o);
  o.model.AddLoad(app);
  app.footer(
      "Shows where the time of a model goes, and how far each operator is from what the machine\n"
      "can do. The machine's roofs are measured first (about a second): multiply-adds in\n"
      "registers for each instruction set, and reading from each cache and from memory.\n"
      "  share    of the time of all operators\n"
      "  GFLOP/s  arithmetic by the operator's definition: Winograd can pass the peak\n"
      "  GB/s     inputs, weights and outputs, each once\n"
      "  roof     the least time that the roofs allow, over the time it took: 100 % is perfect\n"
      "  bound    what sets that least time: compute, a cache (L1, L2, L3), memory, or overhead\n"
      "           where starting the operator takes longer than its work should\n"
      "Start with the largest share that has a low roof.\n"
      "Example: a table by module, and a page with everything\n"
      "  oort profile resnet18.pnnx.param --threads 2 --by module --html resnet18.html");
  return [options] { return RunProfile(*options); };
}

}  // namespace oort::cli
