// SPDX-License-Identifier: MIT
#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <regex>
#include <set>

#include "cli/chart.h"
#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/results.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  ModelOptions model;
  std::vector<std::string> inputs;
  std::string output_dir, labels, dump;
  int top_k = 5;
  Normalization normalization;
  bool check_nan = false, json = false;
};

/// A name of an operator as a file name: no separators, nothing hidden.
std::string FileName(std::string name) {
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    if (!plain) c = '_';
  }
  return name.starts_with('.') ? "_" + name : name;
}

void MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::kIo,
                "cannot create folder '" + folder.string() + "': " + error.message());
  }
}

/// Looks at every operator while the model runs.
class Observer {
 public:
  explicit Observer(const RunArguments& options) : check_nan_(options.check_nan) {
    if (options.dump.empty()) return;
    pattern_ = std::make_unique<std::regex>(options.dump);
    folder_ = fs::path(options.output_dir) / "dump";
    MakeFolder(folder_);
  }
  bool active() const { return check_nan_ || pattern_ != nullptr; }

  void operator()(const NodeEvent& event) {
    for (size_t i = 0; i < event.outputs.size(); ++i) {
      const Value& value = event.outputs[i];
      if (!value.IsTensor() || !value.AsTensor().has_data()) continue;
      const Tensor& tensor = value.AsTensor();
      if (check_nan_ && IsFloat(tensor.dtype()) && Measure(tensor).nan > 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "the first NaN comes out of " + event.op.Describe());
      }
      if (pattern_ && std::regex_search(event.op.name, *pattern_)) Dump(event, i, tensor);
    }
  }

 private:
  void Dump(const NodeEvent& event, size_t output, const Tensor& tensor) {
    std::string name = FileName(event.op.name);
    if (output > 0) name += ".out" + std::to_string(output);
    if (!written_.insert(name).second) name += "." + std::to_string(event.index);
    WriteNpy(folder_ / (name + ".npy"), tensor);
  }

  bool check_nan_;
  std::unique_ptr<std::regex> pattern_;
  fs::path folder_;
  std::set<std::string> written_;
};

Json OutputJson(const Port* port, const Tensor& tensor, const fs::path& file) {
  Json json = {{"dtype", Name(tensor.dtype())}, {"shape", ToJson(tensor.shape())}};
  if (port != nullptr) json["name"] = port->name;
  json["statistics"] = ToJson(Measure(tensor));
  if (!file.empty()) json["file"] = file.string();
  return json;
}

void PrintOutputs(const std::vector<Tensor>& outputs, const std::vector<fs::path>& files) {
  Table table({{"output"},
               {"shape"},
               {"min", Table::kRight},
               {"max", Table::kRight},
               {"mean", Table::kRight},
               {"std", Table::kRight},
               {""}});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Statistics s = Measure(outputs[i]);
    std::string note = files.empty() ? "" : files[i].string();
    if (s.nan > 0) note += " " + std::to_string(s.nan) + " NaN";
    if (s.infinite > 0) note += " " + std::to_string(s.infinite) + " infinite";
    table.Row({"out" + std::to_string(i), outputs[i].ToString(), FormatNumber(s.min),
               FormatNumber(s.max), FormatNumber(s.mean), FormatNumber(s.deviation), note});
  }
  table.Print(std::cout);
}

void PrintClasses(const std::vector<std::vector<Guess>>& rows,
                  const std::vector<std::string>& labels) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows.size() > 1) std::cout << "picture " << i << '\n';
    Table table({{"", Table::kRight}, {""}, {"", Table::kRight}, {""}});
    for (size_t k = 0; k < rows[i].size(); ++k) {
      const Guess& guess = rows[i][k];
      table.Row({std::to_string(k + 1) + ".", LabelOf(labels, guess.index),
                 FormatFixed(100 * guess.probability, 1) + " %", Bar(guess.probability, 30)});
    }
    table.Print(std::cout);
  }
}

Json ClassesJson(const std::vector<std::vector<Guess>>& rows,
                 const std::vector<std::string>& labels) {
  Json json = Json::array();
  for (const auto& row : rows) {
    Json guesses = Json::array();
    for (const Guess& guess : row) {
      guesses.push_back({{"class", guess.index},
                         {"label", LabelOf(labels, guess.index)},
                         {"probability", guess.probability}});
    }
    json.push_back(std::move(guesses));
  }
  return json;
}

std::vector<fs::path> WriteOutputs(const std::vector<Tensor>& outputs, const fs::path& folder) {
  MakeFolder(folder);
  std::vector<fs::path> files;
  for (size_t i = 0; i < outputs.size(); ++i) {
    files.push_back(folder / ("out" + std::to_string(i) + ".npy"));
    WriteNpy(files.back(), outputs[i]);
  }
  return files;
}

void Report(const RunArguments& options, bool classify, const RuntimeGraph& graph,
            const std::vector<Tensor>& outputs, const std::vector<fs::path>& files,
            const std::vector<std::string>& labels) {
  std::vector<std::vector<Guess>> classes;
  if (classify && !outputs.empty()) classes = TopClasses(outputs.front(), options.top_k);
  if (!options.json) {
    if (!classify || !files.empty()) PrintOutputs(outputs, files);
    PrintClasses(classes, labels);
    return;
  }
  Json json = {{"model", options.model.model}, {"outputs", Json::array()}};
  const bool named = graph.outputs().size() == outputs.size();
  for (size_t i = 0; i < outputs.size(); ++i) {
    json["outputs"].push_back(OutputJson(named ? &graph.outputs()[i] : nullptr, outputs[i],
                                         files.empty() ? fs::path() : files[i]));
  }
  if (classify) json["top"] = ClassesJson(classes, labels);
  Print(std::cout, json);
}

int Run(const RunArguments& options, bool classify) {
  if (!options.dump.empty() && options.output_dir.empty()) {
    throw UsageError("--dump needs --output-dir");
  }
  CheckNormalization(options.normalization);
  Observer observer(options);
  const std::vector<std::string> labels =
      options.labels.empty() ? std::vector<std::string>() : ReadLabels(options.labels);
  const auto graph = options.model.LoadModel();
  const std::vector<Tensor> inputs =
      ReadInputs(graph->inputs(), options.inputs, options.normalization);
  Session session(graph, options.model.ForSession());
  RunOptions run;
  if (observer.active()) run.observer = std::ref(observer);
  const std::vector<Tensor> outputs = Forward(session, inputs, run);
  std::vector<fs::path> files;
  if (!options.output_dir.empty()) files = WriteOutputs(outputs, options.output_dir);
  Report(options, classify, *graph, outputs, files, labels);
  return 0;
}

void CheckRegex(const std::string& text) {
  try {
    const std::regex pattern(text);
  } catch (const std::regex_error&) {
    throw CLI::ValidationError("--dump", "'" + text + "' is not a regular expression");
  }
}

}  // namespace

Action AddRun(CLI::App& app) {
  auto options = std::make_shared<RunArguments>();
  RunArguments& o = *options;
  o.model.AddModel(app);
  app.add_option("--input", o.inputs,
                 "One file for each input of the model: .npy, .png, .jpg, .bmp, .ppm or .pgm; "
                 "NAME=FILE picks an input by name")
      ->type_name("FILE");
  app.add_option("--output-dir", o.output_dir, "Write out0.npy, out1.npy … into this folder")
      ->type_name("DIR");
  o.model.AddThreads(app);
  o.model.AddLoad(app);
  AddNormalization(app, o.normalization);
  CLI::Option* labels =
      app.add_option("--labels", o.labels, "Names of the classes, one a line; prints the best")
          ->type_name("FILE");
  CLI::Option* top = app.add_option("--top-k", o.top_k, "How many classes to print (default 5)")
                         ->type_name("K")
                         ->check(CLI::Range(1, 1000000));
  app.add_option("--dump", o.dump,
                 "Write what operators whose name matches give into DIR/dump; "
                 "with --no-passes every operator of the file is seen")
      ->type_name("REGEX")
      ->each(CheckRegex);
  app.add_flag("--check-nan", o.check_nan, "Stop at the first operator that gives a NaN");
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Pictures are resized to the traced shape of the input and divided by 255.\n"
      "Example: the classes of a picture, for a network trained on ImageNet\n"
      "  oort run resnet18.pnnx.param --input cat.jpg --labels imagenet.txt --top-k 3 \\\n"
      "      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225\n"
      "Example: arrays in, arrays out\n"
      "  oort run net.pnnx.param --input x.npy mask.npy --output-dir results");
  return [options, labels, top] { return Run(*options, labels->count() > 0 || top->count() > 0); };
}

}  // namespace oort::cli
