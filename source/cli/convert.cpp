// SPDX-License-Identifier: MIT
#include <iostream>

#include "cli/model.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ModelOptions model;
  std::string out;
  bool json = false;
};

int Convert(const Options& options) {
  const fs::path param = options.out;
  if (param.extension() != ".param") {
    throw UsageError("OUT must end in .param, got '" + options.out + "'");
  }
  const fs::path bin = fs::path(param).replace_extension(".bin");
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
  auto options = std::make_shared<Options>();
  Options& o = *options;
  o.model.AddModel(app);
  app.add_option("OUT", o.out, "The .pnnx.param to write; the .pnnx.bin goes beside it")
      ->required();
  app.add_flag("--no-checksums", o.model.no_checksums,
               "Do not check the weights against their checksums");
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Weights are aligned to 64 bytes, so that they are used in place when the file is mapped.\n"
      "Example:\n"
      "  oort convert net.pnnx.param net.aligned.pnnx.param");
  return [options] { return Convert(*options); };
}

}  // namespace oort::cli
