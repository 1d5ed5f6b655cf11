// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>

#include "cli/examine.h"
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

int Doctor(const DoctorArguments& options) {
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
                      {"problems", problems}});
  } else {
    PrintReport(files, diagnosis);
  }
  return diagnosis.findings.empty() ? 0 : 1;
}

}  // namespace

Action AddDoctor(CLI::App& app) {
  auto options = std::make_shared<DoctorArguments>();
  DoctorArguments& o = *options;
  o.model.AddModel(app);
  o.model.AddLoad(app);
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Finds everything at once: what is wrong with the files, operators that this build does not\n"
      "know, parameters that are missing, unknown or out of range; each with how often and where\n"
      "first. Without the .bin the structure alone is examined. Exit code 0 if the model would "
      "run.\n"
      "Example:\n"
      "  oort doctor net.pnnx.param --json");
  return [options] { return Doctor(*options); };
}

}  // namespace oort::cli
