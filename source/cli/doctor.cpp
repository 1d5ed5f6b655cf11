// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>
#include <set>

#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

struct Options {
  ModelOptions model;
  bool json = false;
};

/// The same thing wrong in one or more places.
struct Finding {
  bool unknown_operator = false;
  Problem first;
  std::string message;  ///< without the place
  int count = 0;
  std::vector<std::string> similar;
};

struct Diagnosis {
  std::vector<Finding> findings;
  size_t operators = 0, types = 0, places = 0;
  std::string weights;  ///< "checked", "missing", "none needed", "not checked"
};

/// The message without the "operator 'x' (type, line 7): " that tells its place.
std::string WithoutPlace(const Problem& problem) {
  const std::string start = "operator '" + problem.operator_name + "'";
  if (problem.operator_name.empty() || !problem.message.starts_with(start)) return problem.message;
  const size_t colon = problem.message.find("): ", start.size());
  return colon == std::string::npos ? problem.message : problem.message.substr(colon + 3);
}

bool IsUnknown(const Problem& problem) {
  const std::string& type = problem.operator_type;
  return problem.code == ErrorCode::kUnsupported && !type.empty() &&
         LayerRegistry::Global().Schema(type) == nullptr;
}

void AddProblem(const Problem& problem, Diagnosis& diagnosis) {
  const bool unknown = IsUnknown(problem);
  const std::string message = unknown ? "unknown operator" : WithoutPlace(problem);
  ++diagnosis.places;
  for (Finding& finding : diagnosis.findings) {
    if (finding.message == message && finding.first.operator_type == problem.operator_type) {
      ++finding.count;
      return;
    }
  }
  Finding finding{unknown, problem, message, 1, {}};
  if (unknown) finding.similar = LayerRegistry::Global().Similar(problem.operator_type);
  diagnosis.findings.push_back(std::move(finding));
}

/// Runs a step of the examination; what it throws is a finding.
template <typename Step>
bool Try(Diagnosis& diagnosis, const Step& step) {
  try {
    step();
    return true;
  } catch (const Error& error) {
    for (const Problem& problem : error.problems()) AddProblem(problem, diagnosis);
    if (error.problems().empty()) AddProblem({error.code(), error.what(), "", "", 0}, diagnosis);
    return false;
  }
}

void CheckStructure(const Graph& graph, const LoadOptions& load, Diagnosis& diagnosis) {
  std::set<std::string> types;
  for (const Operator& op : graph.operators) types.insert(op.type);
  diagnosis.operators = graph.operators.size();
  diagnosis.types = types.size();
  for (const Problem& problem : RuntimeGraph::Diagnose(graph, load)) AddProblem(problem, diagnosis);
}

/// What only shows when the weights are read and shapes are computed.
void CheckWeights(const ModelFiles& files, const LoadOptions& load, Diagnosis& diagnosis) {
  Try(diagnosis, [&] {
    ReadOptions read;
    read.verify_checksums = load.verify_checksums;
    Graph graph = ReadPnnx(*files.OpenParam(), ByteSource::File(files.bin), read);
    diagnosis.weights = "checked";
    if (!diagnosis.findings.empty()) return;  // it cannot be built anyway
    const auto runtime = RuntimeGraph::Build(std::move(graph), load);
    const bool shapes_known =
        std::all_of(runtime->inputs().begin(), runtime->inputs().end(),
                    [](const Port& port) { return port.has_shape && port.shape.IsKnown(); });
    if (shapes_known) runtime->Plan(InputMetas(runtime->inputs(), {}));
  });
}

Diagnosis Examine(const ModelFiles& files, const LoadOptions& load) {
  Diagnosis diagnosis;
  Graph graph;
  const bool readable = Try(diagnosis, [&] { graph = ReadPnnxParam(*files.OpenParam()); });
  if (readable) CheckStructure(graph, load, diagnosis);
  if (!files.bin.empty()) {
    diagnosis.weights = "not checked";
    // A file that cannot be read has told its problems already.
    if (readable) CheckWeights(files, load, diagnosis);
  } else {
    const bool needed = std::any_of(graph.operators.begin(), graph.operators.end(),
                                    [](const Operator& op) { return !op.attributes.empty(); });
    diagnosis.weights = needed ? "missing" : "none needed";
  }
  return diagnosis;
}

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
  const auto unknown = std::find_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                                    [](const Finding& f) { return f.unknown_operator; });
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

Json ToJson(const Finding& finding) {
  return {{"kind", finding.unknown_operator ? "unknown_operator" : "problem"},
          {"code", Name(finding.first.code)},
          {"type", finding.first.operator_type},
          {"message", finding.message},
          {"count", finding.count},
          {"first", {{"operator", finding.first.operator_name}, {"line", finding.first.line}}},
          {"similar", finding.similar}};
}

int Doctor(const Options& options) {
  const LoadOptions load = options.model.Load();
  const ModelFiles files = FindModel(options.model.model, options.model.bin);
  const Diagnosis diagnosis = Examine(files, load);
  if (options.json) {
    Json problems = Json::array();
    for (const Finding& finding : diagnosis.findings) problems.push_back(ToJson(finding));
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
  auto options = std::make_shared<Options>();
  Options& o = *options;
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
