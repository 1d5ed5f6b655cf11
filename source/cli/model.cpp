// SPDX-License-Identifier: MIT
#include "cli/model.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "cli/inputs.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "core/cpu_limits.h"
#include "cpu/lanes_kernels.h"
#include "oort/language_model.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParamEnding = ".pnnx.param";

[[noreturn]] void ThrowLanguageModel(const fs::path& model) {
  throw Error(ErrorCode::kUnsupported, "'" + model.string() +
                                           "' is a language model: generate, chat, bench-llm, "
                                           "perplexity, profile, info, doctor and convert take "
                                           "it");
}

fs::path FindParam(const fs::path& model) {
  std::error_code error;
  if (!fs::is_directory(model, error)) {
    if (!fs::exists(model, error)) {
      throw Error(ErrorCode::kNotFound, "no such model: '" + model.string() + "'");
    }
    if (IsLanguageModel(model)) ThrowLanguageModel(model);
    return model;
  }
  const fs::path usual = model / "model.pnnx.param";
  if (fs::exists(usual, error)) return usual;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(model, error)) {
    if (entry.path().filename().string().ends_with(kParamEnding)) found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  if (IsLanguageModel(model)) ThrowLanguageModel(model);
  throw Error(ErrorCode::kNotFound,
              "expected model.pnnx.param or exactly one *.pnnx.param in folder '" + model.string() +
                  "', found " + std::to_string(found.size()));
}

Isa ParseIsa(const std::string& name) {
  if (name.empty()) return DefaultIsa();
  try {
    return IsaOf(name);
  } catch (const Error& error) {
    throw UsageError("--isa: " + std::string(error.what()));
  }
}

Precision ParsePrecision(const std::string& name) {
  try {
    return PrecisionOf(name);
  } catch (const Error& error) {
    throw UsageError("--precision: " + std::string(error.what()));
  }
}

/// Of `--precision auto` and `auto:SHARE`.
constexpr std::string_view kAuto = "auto";

/// How far outputs may be from f32, as a share of the largest.
double ParseAutoError(const std::string& precision) {
  if (precision == kAuto) return PrecisionSearch().most_error;
  char* end = nullptr;
  const std::string number = precision.substr(kAuto.size() + 1);
  const double error = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(error >= 0 && error <= 1)) {
    throw UsageError("--precision " + precision +
                     ": behind 'auto:' stands what outputs may lose, a number from 0 to 1");
  }
  return error;
}

std::string TrialText(const PrecisionTrial& trial) {
  std::string text =
      std::string(Name(trial.precision)) + " " + FormatNumber(trial.milliseconds, 3) + " ms";
  if (trial.precision != Precision::kF32) text += " off by " + FormatNumber(trial.error, 2);
  return text;
}

void TellChoice(const PrecisionChoice& choice, double most_error) {
  std::vector<std::string> trials;
  for (const PrecisionTrial& trial : choice.trials) trials.push_back(TrialText(trial));
  std::cerr << "precision auto: " << Name(choice.chosen.precision) << " (" << Join(trials, ", ")
            << "; at most " << FormatNumber(most_error) << " of the largest output)\n";
}

void CheckF16(Isa isa) {
  try {
    CheckF16Arithmetic(isa);
  } catch (const Error& error) {
    throw UsageError("--precision: " + std::string(error.what()));
  }
}

void Flatten(const Value& value, std::vector<Tensor>& tensors) {
  if (value.IsList()) {
    for (const Value& element : value.AsList()) Flatten(element, tensors);
  } else if (value.IsTensor()) {
    tensors.push_back(value.AsTensor());
  } else if (value.IsBool()) {
    tensors.push_back(Tensor::Scalar(value.AsBool()));
  } else if (value.IsInt()) {
    tensors.push_back(Tensor::Scalar(value.AsInt()));
  } else if (value.IsFloat()) {
    tensors.push_back(Tensor::Scalar(value.AsFloat()));
  } else if (value.IsComplex()) {
    tensors.push_back(Tensor::Scalar(value.AsComplex()));
  } else {
    throw Error(ErrorCode::kUnsupported,
                "an output of the model is " + value.KindName() + ", which is no array");
  }
}

}  // namespace

std::shared_ptr<const ByteSource> ModelFiles::OpenBin(const Graph& graph) const {
  if (!bin.empty()) return ByteSource::File(bin);
  for (const Operator& op : graph.operators) {
    if (op.attributes.empty()) continue;
    throw Error(ErrorCode::kNotFound, "the model has weights, but '" +
                                          fs::path(param).replace_extension(".bin").string() +
                                          "' does not exist (give --bin)");
  }
  return nullptr;
}

ModelFiles FindModel(const std::string& model, const std::string& bin) {
  std::error_code error;
  ModelFiles files{FindParam(model), bin};
  if (bin.empty()) {
    fs::path beside = files.param;
    beside.replace_extension(".bin");
    if (beside != files.param && fs::exists(beside, error)) files.bin = beside;
  } else if (!fs::exists(files.bin, error)) {
    throw Error(ErrorCode::kNotFound, "no such file: '" + bin + "'");
  }
  return files;
}

void ModelOptions::AddModel(CLI::App& app, const char* what) {
  app.add_option("MODEL", model, what)->required();
  app.add_option("--bin", bin, "The weights, where they are not beside the .param")
      ->type_name("FILE");
}

void ModelOptions::AddLoad(CLI::App& app) {
  device.Add(app);
  app.add_option("--isa", isa, "Instruction set of the kernels (see 'oort devices')")
      ->type_name("NAME");
  app.add_option("--precision", precision,
                 "What networks compute in: f32, or bf16 or f16 for speed; on a GPU also tf32; "
                 "'oort verify' tells what it costs; auto tries those that the machine has units "
                 "for and takes the fastest whose outputs differ by 0.01 of the largest at most "
                 "(auto:0.001 by less)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--no-passes", no_passes, "Run the graph as it stands in the file, nothing fused");
  app.add_option("--without", without, "Leave out this pass over the graph; may be repeated")
      ->type_name("PASS")
      ->check(CLI::IsMember(RuntimeGraph::PassNames()));
  app.add_flag("--no-checksums", no_checksums, "Do not check the weights against their checksums");
}

void ModelOptions::AddThreads(CLI::App& app) {
  app.add_option("--threads", threads, "Threads of one run; 0 for all that the process may use")
      ->type_name("N")
      ->check(CLI::Range(0, kMostThreads));
}

void ModelOptions::AddConv(CLI::App& app) {
  app.add_option("--conv", conv, "Algorithm of the convolutions that it accepts")
      ->type_name("NAME")
      ->check(CLI::IsMember(RuntimeGraph::ConvAlgorithms()));
}

bool ModelOptions::IsAuto() const {
  return precision == kAuto || precision.starts_with(std::string(kAuto) + ":");
}

LoadOptions ModelOptions::Load() const {
  const bool automatic = IsAuto();
  if (automatic) ParseAutoError(precision);
  LoadOptions options{.isa = ParseIsa(isa),
                      .precision = automatic ? Precision::kF32 : ParsePrecision(precision)};
  options.device = device.Get();
  const bool on_cpu = options.device.type == DeviceType::kCpu;
  if (options.precision == Precision::kTF32 && on_cpu) {
    throw UsageError("--precision " + precision + " needs a GPU: --device cuda");
  }
  if (options.precision == Precision::kF16 && on_cpu) CheckF16(options.isa);
  if (options.precision == Precision::kBF16 && on_cpu && !HasUnits(Precision::kBF16, options.isa)) {
    std::cerr << "oort: note: this processor has no units for bf16, so it is slower than f32 here; "
                 "--precision auto finds what is fastest\n";
  }
  options.conv_algorithm = conv;
  options.verify_checksums = !no_checksums;
  options.disabled_passes = without;
  if (no_passes) options.disabled_passes = {"all"};
  return options;
}

std::shared_ptr<const RuntimeGraph> ModelOptions::LoadModel() const {
  const LoadOptions options = Load();  // a wrong option is told before a wrong file
  const ModelFiles files = FindModel(model, bin);
  return IsAuto() ? ChooseModel(files, options).graph : cli::LoadModel(files, options);
}

PrecisionChoice ModelOptions::ChooseModel(const ModelFiles& files, LoadOptions options) const {
  PrecisionSearch search{.device = options.device,
                         .isa = options.isa,
                         .threads = threads,
                         .most_error = ParseAutoError(precision)};
  std::vector<Tensor> inputs;
  const auto load = [&](Precision tried) {
    options.precision = tried;
    auto graph = cli::LoadModel(files, options);
    if (inputs.empty()) inputs = RandomInputs(InputMetas(graph->inputs(), {}));
    return graph;
  };
  // The first one is loaded in any case, and tells what inputs there are.
  auto first = load(Precision::kF32);
  const auto load_once = [&](Precision tried) {
    return first != nullptr && tried == Precision::kF32 ? std::exchange(first, nullptr)
                                                        : load(tried);
  };
  PrecisionChoice choice = ChoosePrecision(load_once, inputs, search);
  TellChoice(choice, search.most_error);
  return choice;
}

std::shared_ptr<const RuntimeGraph> LoadModel(const ModelFiles& files, LoadOptions options) {
  ProgressLine line;
  options.progress = line.Function();
  const auto param = files.OpenParam();
  // The structure is only read twice where there is no .bin, to say that it is missing.
  const auto bin = files.OpenBin(files.bin.empty() ? ReadPnnxParam(*param) : Graph());
  return RuntimeGraph::Load(*param, bin, options);
}

std::vector<Tensor> Forward(Session& session, const std::vector<Tensor>& inputs,
                            const RunOptions& options) {
  std::vector<Tensor> outputs;
  const std::vector<Value> values(inputs.begin(), inputs.end());
  for (const Value& value : session.Run(values, options)) Flatten(value, outputs);
  return outputs;
}

std::string Describe(const Port& port) {
  std::string text = port.name;
  if (port.has_shape) text += " " + port.shape.ToString();
  if (port.dtype != DType::kNull)
    text += (port.has_shape ? "" : " ") + std::string(Name(port.dtype));
  return text;
}

}  // namespace oort::cli
