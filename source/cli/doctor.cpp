// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/examine.h"
#include "cli/language_info.h"
#include "cli/model.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

struct DoctorArguments {
  ModelOptions model;
  bool json = false;
};

std::string Place(const Problem& problem) {
  std::string place = problem.operator_name.empty() ? "" : "'" + problem.operator_name + "'";
  if (problem.line > 0) {
    place += (place.empty() ? "line " : " in line ") + std::to_string(problem.line);
  }
  return SingleLine(place);
}

void PrintFinding(const Finding& finding) {
  std::string line = std::to_string(finding.count) + "x  ";
  line.insert(0, 6 - std::min<size_t>(6, line.size()), ' ');
  if (!finding.first.operator_type.empty()) line += finding.first.operator_type + ": ";
  line += finding.message;
  if (const std::string place = Place(finding.first); !place.empty()) {
    line += (finding.count > 1 ? "; first at " : "; at ") + place;
  }
  if (!finding.similar.empty()) line += "; similar: " + Join(finding.similar, ", ");
  std::cout << SingleLine(line) << '\n';
}

void PrintReport(const ModelFiles& files, const Diagnosis& diagnosis) {
  std::cout << files.param.string() << ": " << diagnosis.operators << " operators of "
            << diagnosis.types << " types, weights " << diagnosis.weights << '\n';
  for (const Finding& finding : diagnosis.findings) PrintFinding(finding);
  const auto unknown =
      std::find_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& finding) { return finding.unknown_operator; });
  if (unknown != diagnosis.findings.end()) {
    std::cout << "An operator of your own is registered before the model is loaded:\n"
                 "  oort::LayerRegistry::Global().Add(\n"
                 "      oort::OperatorSchema({\""
              << SingleLine(unknown->first.operator_type)
              << "\"}, \"what it does\").Tensor(\"input\", oort::kF32Only),\n"
                 "      oort::Create<MyLayer>());\n"
                 "demos/custom_operator is a whole program; tools/new-operator writes the files of "
                 "a built-in one.\n";
  }
  for (const std::string& note : diagnosis.notes) {
    std::cout << " note  " << SingleLine(note) << '\n';
  }
  if (diagnosis.findings.empty()) {
    std::cout << (diagnosis.weights == "missing"
                      ? "it would run, as far as can be told without the weights\n"
                      : "it would run\n");
  } else {
    std::cout << "it would not run: " << diagnosis.findings.size()
              << (diagnosis.findings.size() == 1 ? " problem in " : " problems in ")
              << diagnosis.places << (diagnosis.places == 1 ? " place\n" : " places\n");
  }
}

Json FindingToJson(const Finding& finding) {
  return {{"kind", finding.unknown_operator ? "unknown_operator" : "problem"},
          {"code", Name(finding.first.code)},
          {"type", finding.first.operator_type},
          {"message", finding.message},
          {"count", finding.count},
          {"first", {{"operator", finding.first.operator_name}, {"line", finding.first.line}}},
          {"similar", finding.similar}};
}

/// What keeps parts of a language model that loads from being used.
std::vector<std::string> NotesOn(const LanguageModel& model) {
  std::vector<std::string> notes;
  if (!model.has_tokenizer()) notes.emplace_back("no tokenizer: generate and chat need one");
  if (!model.has_chat_template()) notes.emplace_back("no chat template: generate needs --raw");
  for (const std::string& name : model.chat_template_names()) {
    const std::string problem = model.ChatTemplateProblem(name);
    if (!problem.empty()) notes.push_back("chat template " + name + " is unusable: " + problem);
  }
  return notes;
}

/// A GGUF file, a folder of Hugging Face or a llama2.c checkpoint: loaded as generate would.
int DoctorLanguage(const DoctorArguments& options) {
  const std::string& path = options.model.model;
  LanguageModelOptions load;
  load.isa = options.model.Load().isa;
  load.device = options.model.device.Get();
  std::shared_ptr<const LanguageModel> model;
  std::vector<std::string> notes;
  std::string problem;
  try {
    model = LanguageModel::Load(path, load);
    notes = NotesOn(*model);
  } catch (const Error& error) {
    problem = Summary(error);
  }
  if (options.json) {
    Json json = {{"model", path},
                 {"runs", model != nullptr},
                 {"language_model", model ? LanguageInfoJson(*model) : Json()},
                 {"problems", Json::array()},
                 {"notes", notes}};
    if (!model) json["problems"].push_back({{"kind", "problem"}, {"message", problem}});
    Print(std::cout, json);
    return model ? 0 : 1;
  }
  if (!model) {
    std::cout << path << ":\n    1x  " << SingleLine(problem)
              << "\nit would not run: 1 problem in 1 place\n";
    return 1;
  }
  const LanguageModelInfo& info = model->info();
  std::cout << path << ": a language model, " << info.family << " of " << info.layers
            << " layers, weights " << FormatBytes(static_cast<double>(info.weight_bytes)) << '\n';
  for (const std::string& note : notes) std::cout << " note  " << SingleLine(note) << '\n';
  std::cout << "it would run\n";
  return 0;
}

int Doctor(const DoctorArguments& options) {
  // A damaged file, or a page of errors that was downloaded under that name, was meant as one, too.
  const bool is_named_so = std::filesystem::path(options.model.model).extension() == ".gguf";
  if (is_named_so || IsLanguageModel(options.model.model)) return DoctorLanguage(options);
  const LoadOptions load = options.model.Load();
  const ModelFiles files = FindModel(options.model.model, options.model.bin);
  const Diagnosis diagnosis = Examine(files, load);
  if (options.json) {
    Json problems = Json::array();
    for (const Finding& finding : diagnosis.findings) problems.push_back(FindingToJson(finding));
    Print(std::cout, {{"model", files.param.string()},
                      {"runs", diagnosis.findings.empty()},
                      {"operators", diagnosis.operators},
                      {"types", diagnosis.types},
                      {"weights", diagnosis.weights},
                      {"problems", problems},
                      {"notes", diagnosis.notes}});
  } else {
    PrintReport(files, diagnosis);
  }
  return diagnosis.findings.empty() ? 0 : 1;
}

}  // namespace

Action AddDoctor(CLI::App& app) {
  auto options = std::make_shared<DoctorArguments>();
  DoctorArguments& o = *options;
  o.model.AddModel(app, kAnyModel);
  o.model.AddLoad(app);
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Finds everything at once: what is wrong with the files, operators that this build does not\n"
      "know, parameters that are missing, unknown or out of range; each with how often and where\n"
      "first. Without the .bin the structure alone is examined. Notes tell what a model that runs\n"
      "cannot do: a batch of 2 where the trace fixed 1. A language model is loaded as 'oort "
      "generate'\n"
      "does. Exit code 0 if the model would run.\n"
      "Examples:\n"
      "  oort doctor net.pnnx.param --json\n"
      "  oort doctor SmolLM2.gguf");
  return [options] { return Doctor(*options); };
}

}  // namespace oort::cli
