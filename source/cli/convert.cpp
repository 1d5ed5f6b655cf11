// SPDX-License-Identifier: MIT
#include <iostream>
#include <optional>

#include "cli/interrupt.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "oort/language_model.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertArguments {
  ModelOptions model;
  std::string out;
  ConvertOptions weights;
  std::optional<int64_t> group;
  bool json = false;
};

int ConvertLanguage(const ConvertArguments& options, const fs::path& param, const fs::path& bin) {
  ConvertOptions convert = options.weights;
  convert.group = options.group.value_or(convert.group);
  std::stop_source stop;
  convert.stop = stop.get_token();
  {
    const InterruptGuard guard;
    ProgressLine line;
    const ProgressFunction show = line.Function();
    convert.progress = [&](const Progress& progress) {
      if (show) show(progress);
      if (InterruptGuard::interrupted()) stop.request_stop();
    };
    ConvertLanguageModel(options.model.model, param, bin, convert);
  }
  const auto param_bytes = fs::file_size(param), bin_bytes = fs::file_size(bin);
  if (options.json) {
    Print(std::cout, {{"param", param.string()},
                      {"bin", bin.string()},
                      {"param_bytes", param_bytes},
                      {"bin_bytes", bin_bytes}});
  } else {
    std::cout << param.string() << "  " << FormatBytes(static_cast<double>(param_bytes)) << '\n'
              << bin.string() << "  " << FormatBytes(static_cast<double>(bin_bytes)) << '\n';
  }
  return 0;
}

int Convert(const ConvertArguments& options) {
  const fs::path param = options.out;
  if (param.extension() != ".param") {
    throw UsageError("OUT must end in .param, got '" + options.out + "'");
  }
  if ((options.group || options.weights.asymmetric) &&
      !options.weights.weights.starts_with("int")) {
    throw UsageError("--group and --asymmetric need --weights int8 or --weights int4");
  }
  const fs::path bin = fs::path(param).replace_extension(".bin");
  if (IsLanguageModel(options.model.model)) return ConvertLanguage(options, param, bin);
  if (!options.weights.weights.empty()) {
    throw UsageError("--weights is for language models: '" + options.model.model +
                     "' is no GGUF, folder of Hugging Face or checkpoint of llama2.c");
  }
  const ModelFiles files = FindModel(options.model.model, options.model.bin);
  const auto source = files.OpenParam();
  const auto weights = files.OpenBin(files.bin.empty() ? ReadPnnxParam(*source) : Graph());
  ReadOptions read;
  read.verify_checksums = !options.model.no_checksums;
  const Graph graph = ReadPnnx(*source, weights, read);
  WritePnnx(graph, param, bin);
  const auto param_bytes = fs::file_size(param), bin_bytes = fs::file_size(bin);
  if (options.json) {
    Print(std::cout, {{"param", param.string()},
                      {"bin", bin.string()},
                      {"operators", graph.operators.size()},
                      {"param_bytes", param_bytes},
                      {"bin_bytes", bin_bytes}});
  } else {
    std::cout << param.string() << "  " << graph.operators.size() << " operators, "
              << FormatBytes(static_cast<double>(param_bytes)) << '\n'
              << bin.string() << "  " << FormatBytes(static_cast<double>(bin_bytes)) << '\n';
  }
  return 0;
}

}  // namespace

Action AddConvert(CLI::App& app) {
  auto options = std::make_shared<ConvertArguments>();
  ConvertArguments& o = *options;
  o.model.AddModel(app, kAnyModel);
  app.add_option("OUT", o.out, "The .pnnx.param to write; the .pnnx.bin goes beside it")
      ->required();
  app.add_flag("--no-checksums", o.model.no_checksums,
               "Do not check the weights against their checksums");
  app.add_option("--weights", o.weights.weights,
                 "Of a language model: int8, int4, bf16, f16 or f32; as they are unless given")
      ->check(CLI::IsMember({"int8", "int4", "bf16", "f16", "f32"}));
  app.add_option("--group", o.group, "Weights of int8 and int4 that share a scale (default 32)")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}));
  app.add_flag("--asymmetric", o.weights.asymmetric, "Groups of int8 and int4 have a minimum, too");
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Weights are aligned to 64 bytes, so that they are used in place when the file is mapped.\n"
      "A GGUF file, a folder of Hugging Face and a checkpoint of llama2.c are converted weight by\n"
      "weight; quantized weights of a GGUF that fit are copied without another loss.\n"
      "Examples:\n"
      "  oort convert net.pnnx.param net.aligned.pnnx.param\n"
      "  oort convert Qwen2.5-0.5B-Instruct qwen.pnnx.param --weights int4 --group 64");
  return [options] { return Convert(*options); };
}

}  // namespace oort::cli
