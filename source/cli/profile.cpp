// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/inputs.h"
#include "cli/language_info.h"
#include "cli/model.h"
#include "cli/profile_language.h"
#include "cli/profile_measure.h"
#include "cli/profile_report.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

struct ProfileArguments {
  ModelOptions model;
  MeasuredRuns measured;
  int top = 15;
  std::string by = "operator";
  ProfileFiles files;
  LanguageSteps language;
  bool json = false;
};

/// Modules by the names in the file, because fusing leaves fewer of them and parts have others.
void NameModules(ProfileReport& report, const std::string& model) {
  const ModuleMap of_file = FindModules(ReadPnnxParam(*FindModel(model).OpenParam()));
  const ModuleMap of_graph = FindModules(report.graph);
  std::map<std::string, std::string> file_names;
  for (const Operator& op : report.graph.operators) file_names.emplace(op.name, op.FileName());
  for (ProfileOperator& op : report.operators) {
    const auto name = file_names.find(op.name);
    const auto found = of_file.find(name == file_names.end() ? op.name : name->second);
    const auto path = found != of_file.end() ? found : of_graph.find(op.name);
    if (found != of_file.end() || path != of_graph.end()) op.module = path->second;
  }
}

int ProfileNetwork(const ProfileArguments& options) {
  const LanguageOptions& shape = options.language.shape;
  if (!shape.weights.empty() || shape.group) {
    throw UsageError("--weights and --group are for language models");
  }
  const auto graph = options.model.LoadModel();
  const std::vector<Tensor> inputs = options.measured.Inputs(graph->inputs());
  Session session(graph, options.model.ForSession());
  ProfileReport report =
      MeasureProfile(session, inputs, options.measured, MeasureRoofsOf(*graph, session.threads()));
  report.model = options.model.model;
  NameModules(report, options.model.model);
  options.files.Write(report);
  if (options.json) {
    Print(std::cout, ProfileJson(report));
  } else {
    PrintProfile(std::cout, report, options.by, options.top);
  }
  return 0;
}

/// One step that reads the prompt, and one that makes a token in the middle of the answer.
int ProfileLanguage(const ProfileArguments& options) {
  const MeasuredRuns& measured = options.measured;
  if (!measured.files.empty() || !measured.shapes.empty()) {
    throw UsageError("a language model has no inputs of its own: --prompt-tokens and --new-tokens");
  }
  const std::vector<LanguageStep> steps =
      ProfileSteps(options.model, options.language, options.measured);
  Json json = {{"model", options.model.model},
               {"prompt_tokens", options.language.prompt_tokens},
               {"new_tokens", options.language.new_tokens},
               {"batch", options.language.batch}};
  for (const LanguageStep& step : steps) {
    options.files.For(step.name).Write(step.report);
    if (options.json) {
      json[step.name] = ProfileJson(step.report);
      continue;
    }
    if (&step != &steps.front()) std::cout << '\n';
    PrintProfile(std::cout, step.report, options.by, options.top);
  }
  if (options.json) Print(std::cout, json);
  return 0;
}

int RunProfile(const ProfileArguments& options) {
  if (!options.language.shape.random.empty()) return ProfileLanguage(options);
  if (options.model.model.empty()) throw UsageError("name a MODEL, or a shape: --random");
  return options.language.asked || HoldsLanguageModel(options.model.model)
             ? ProfileLanguage(options)
             : ProfileNetwork(options);
}

void AddOutputs(CLI::App& app, ProfileArguments& o) {
  const auto file = [&](const char* name, std::string& target, const char* text) {
    app.add_option(name, target, text)->type_name("FILE");
  };
  app.add_flag("--json", o.json, "Print JSON: everything, whatever --by and --top say");
  file("--html", o.files.html, "A page that opens offline: roofline, tables, memory plan, graph");
  file("--trace", o.files.trace,
       "Trace events of one run, for ui.perfetto.dev or chrome://tracing");
  file("--dot", o.files.dot, "The graph as it runs, for Graphviz, coloured by share");
  file("--param", o.files.param, "The graph as it runs, for Netron (no weights)");
  app.add_option("--svg", o.files.svg, "Pictures: roofline.svg, memory.svg, graph.svg")
      ->type_name("FOLDER");
}

}  // namespace

Action AddProfile(CLI::App& app) {
  auto options = std::make_shared<ProfileArguments>();
  ProfileArguments& o = *options;
  o.model.AddModel(app, kAnyModel);
  app.get_option("MODEL")->required(false);  // --random may stand for it
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
  o.language.Add(app);
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
      "Of a language model it shows two steps: one that reads a prompt, and one that makes a "
      "token\n"
      "in the middle of the answer; files are written for each (page.prefill.html,\n"
      "page.decode.html).\n"
      "With --device cuda times are the GPU's, and its roofs are tensor cores and memory.\n"
      "Example: a table by module, and a page with everything\n"
      "  oort profile resnet18.pnnx.param --threads 2 --by module --html resnet18.html\n"
      "  oort profile SmolLM2.gguf --prompt-tokens 128 --new-tokens 64 --by type");
  return [options] { return RunProfile(*options); };
}

}  // namespace oort::cli
