// SPDX-License-Identifier: MIT
#include "quantize/quantize.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <optional>

#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/quantize_language.h"
#include "cli/quantize_report.h"
#include "cli/samples.h"
#include "oort/language_model.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

struct QuantizeArguments {
  ModelOptions model;
  std::string out, recipe, method, budget, html, weights;
  SampleFiles calibrate, test;
  std::string labels;
  std::optional<double> percentile;
  Normalization normalization;
  bool dynamic = false, equalize = false, adaround = false, no_bias_correction = false;
  bool symmetric = false, one_scale = false;
  bool report = false, json = false;
  LanguageQuantizeArguments language;
};

/// How networks and language models get their scales.
constexpr const char* kNetworkMethods[] = {"auto",       "minmax", "moving-average",
                                           "percentile", "kl",     "mse"};
constexpr const char* kNetworkWeights[] = {"mse", "minmax"};

/// Options that say how activations of a network become bytes, and what it is calibrated with.
constexpr const char* kNetworkOptions[] = {
    "--bin",       "--samples",   "--test-samples", "--labels",       "--percentile",
    "--one-scale", "--symmetric", "--dynamic",      "--equalize",     "--adaround",
    "--mean",      "--std",       "--invert",       "--no-checksums", "--no-bias-correction"};

/// Throws where one of these was given for a language model, which would not heed it.
void RefuseForLanguageModel(const CLI::App& app, const std::string& model) {
  for (const char* name : kNetworkOptions) {
    if (app.count(name) == 0) continue;
    throw UsageError(std::string(name) + " is for networks of a .pnnx.param: '" + model +
                     "' is a language model, of which weights alone get fewer bits");
  }
}

template <size_t kCount>
void RequireOneOf(const char* option, const std::string& given,
                  const char* const (&known)[kCount]) {
  if (given.empty() || std::ranges::find(known, given) != std::end(known)) return;
  throw UsageError(std::string(option) + " " + given + ": networks have " +
                   Join({std::begin(known), std::end(known)}, ", "));
}

/// "0.5%" or "0.005" as a share.
double ParseBudget(const std::string& text) {
  const bool percent = text.ends_with('%');
  try {
    size_t end = 0;
    const double value = std::stod(text, &end);
    if (end + (percent ? 1 : 0) == text.size() && value >= 0 && value <= (percent ? 100 : 1)) {
      return percent ? value / 100 : value;
    }
  } catch (const std::logic_error&) {  // said below
  }
  throw UsageError("--budget " + text + ": expected a share such as 0.5% or 0.005");
}

quantize::Recipe RecipeOf(const QuantizeArguments& options) {
  quantize::Recipe recipe;
  if (!options.recipe.empty()) {
    try {
      recipe = quantize::ParseRecipe(ReadTextFile(options.recipe));
    } catch (const Error& error) {
      throw error.WithContext(options.recipe + ": ");
    }
  }
  if (!options.method.empty()) {
    recipe.method = options.method == "auto" ? std::nullopt : quantize::MethodOf(options.method);
  }
  if (options.percentile) recipe.percentile = *options.percentile;
  if (options.no_bias_correction) recipe.bias_correction = false;
  if (options.dynamic) recipe.dynamic = true;
  if (options.equalize) recipe.equalize = true;
  if (options.adaround) recipe.adaround = true;
  if (options.symmetric) recipe.symmetric = true;
  if (options.one_scale) recipe.one_scale = true;
  if (options.weights == "minmax") recipe.weights = quantize::WeightMethod::kMinMax;
  if (options.weights == "mse") recipe.weights = quantize::WeightMethod::kMse;
  return recipe;
}

struct OutputFiles {
  fs::path param, bin, recipe;
};

/// Throws where a file that is read would be written.
OutputFiles OutputsOf(const QuantizeArguments& options, const ModelFiles& files) {
  OutputFiles out{options.out, "", ""};
  if (out.param.extension() != ".param") {
    throw UsageError("--output must end in .param, got '" + options.out + "'");
  }
  out.bin = fs::path(out.param).replace_extension(".bin");
  out.recipe = RecipeBeside(out.param);
  std::error_code ignored;
  for (const fs::path& written : {out.param, out.bin}) {
    for (const fs::path& read : {files.param, files.bin}) {
      if (!read.empty() && fs::equivalent(written, read, ignored)) {
        throw UsageError("--output would overwrite the network itself: '" + read.string() + "'");
      }
    }
  }
  return out;
}

quantize::QuantizeResult QuantizeModel(const QuantizeArguments& options, const ModelFiles& files,
                                       std::stop_source& stop) {
  const auto source = files.OpenParam();
  const auto weights = files.OpenBin(files.bin.empty() ? ReadPnnxParam(*source) : Graph());
  ReadOptions read;
  read.verify_checksums = !options.model.no_checksums;
  Graph graph = ReadPnnx(*source, weights, read);
  LoadOptions plain;
  const std::vector<Port> ports = RuntimeGraph::Build(graph, plain)->inputs();

  quantize::QuantizeOptions work;
  work.recipe = RecipeOf(options);
  SampleFiles calibrate = options.calibrate, test = options.test;
  (test.places.empty() ? calibrate : test).labels = options.labels;
  SampleSet samples = FindSamples(ports, calibrate, options.normalization);
  SampleSet tests = FindSamples(ports, test, options.normalization);
  work.labels = test.places.empty() ? samples.labels : tests.labels;
  work.samples = std::move(samples.samples);
  work.test = std::move(tests.samples);
  if (!options.budget.empty()) work.budget = ParseBudget(options.budget);
  work.analyse = options.report || !options.html.empty();
  work.measure = true;
  work.threads = options.model.threads;
  ProgressLine line;
  const ProgressFunction show = line.Function();
  work.watcher.stop = stop.get_token();
  work.watcher.progress = [&](const Progress& progress) {
    if (show) show(progress);
    if (InterruptGuard::interrupted()) stop.request_stop();
  };
  return quantize::Quantize(std::move(graph), work);
}

/// What both kinds of models call the same.
LanguageQuantizeArguments LanguageOf(const QuantizeArguments& options) {
  LanguageQuantizeArguments language = options.language;
  language.model = options.model.model;
  language.out = options.out;
  language.weights = options.weights;
  language.method = options.method;
  language.calibrate = options.calibrate.places;
  language.test = options.test.places;
  language.recipe = options.recipe;
  language.budget = options.budget;
  language.html = options.html;
  language.report = options.report;
  language.json = options.json;
  language.threads = options.model.threads;
  return language;
}

int Quantize(const QuantizeArguments& options) {
  RequireOneOf("--method", options.method, kNetworkMethods);
  RequireOneOf("--weights", options.weights, kNetworkWeights);
  CheckNormalization(options.normalization);
  if (options.calibrate.places.empty() && options.recipe.empty() && !options.dynamic) {
    throw UsageError(
        "--calibrate is missing: give a folder of pictures or .npy files such as the "
        "network will see; --dynamic does without for linear and recurrent layers and attention");
  }
  if (!options.labels.empty() && options.calibrate.places.empty() && options.test.places.empty()) {
    throw UsageError("--labels needs --calibrate or --test");
  }
  if (!options.budget.empty()) ParseBudget(options.budget);
  const ModelFiles files = FindModel(options.model.model, options.model.bin);
  const OutputFiles out = OutputsOf(options, files);
  const InterruptGuard guard;
  std::stop_source stop;
  const quantize::QuantizeResult result = QuantizeModel(options, files, stop);
  WritePnnx(result.graph, out.param, out.bin);
  WriteTextFile(out.recipe.string(), quantize::RecipeText(result.recipe));
  if (!options.html.empty()) {
    WriteTextFile(options.html, QuantizeHtml(options.model.model, result.report));
  }
  if (options.json) {
    Json json = {
        {"param", out.param.string()}, {"bin", out.bin.string()}, {"recipe", out.recipe.string()}};
    json.update(QuantizeJson(result.report));
    Print(std::cout, json);
    return 0;
  }
  std::cout << out.param.string() << ", recipe " << out.recipe.string() << '\n';
  PrintQuantizeReport(std::cout, result.report);
  return 0;
}

}  // namespace

Action AddQuantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeArguments>();
  QuantizeArguments& o = *options;
  o.model.AddModel(app);
  app.add_option(
         "--output", o.out,
         "The .pnnx.param to write; .bin and .recipe.json go beside it. Of a language model "
         "in GGUF also a .gguf")
      ->type_name("FILE")
      ->required();
  app.add_option("--calibrate", o.calibrate.places,
                 "Folders of pictures or .npy files, or such files; a .npy may have a sample in "
                 "each row; NAME=PLACE picks an input by name. Language models: text files")
      ->type_name("PLACE");
  app.add_option("--samples", o.calibrate.most, "Most samples to calibrate with")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--test", o.test.places,
                 "Samples to judge by; without it every tenth one of --calibrate is held back")
      ->type_name("PLACE");
  app.add_option("--test-samples", o.test.most, "Most samples to judge by")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--labels", o.labels,
                 "The right class of every sample of --test (or else --calibrate) in the order of "
                 "their names, one number a line")
      ->type_name("FILE");
  app.add_option(
      "--method", o.method,
      "How ranges are found: auto takes the better of percentile and mse (default), or "
      "minmax, moving-average, percentile, kl, mse. Language models: gptq (default with "
      "--calibrate), awq, imatrix, search, or smooth (rounds nothing: for --activations)");
  app.add_option("--percentile", o.percentile, "Share of values inside of a range (99.999)")
      ->type_name("P")
      ->check(CLI::Range(50.001, 100.0));
  app.add_option("--weights", o.weights,
                 "How scales of weights are found: mse (default) or minmax. Language models: what "
                 "weights become, int4 (default), int8, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, "
                 "q6_k, or the mixtures q4_k_m, q4_k_s, q5_k_m")
      ->type_name("NAME");
  app.add_flag("--one-scale", o.one_scale,
               "One scale for all weights of a layer, instead of one for each output channel");
  app.add_flag("--symmetric", o.symmetric,
               "Ranges of what layers read reach as far below zero as above, where anything is "
               "below");
  app.add_flag(
      "--dynamic", o.dynamic,
      "Linear and recurrent layers and attention alone, whose inputs get scales row by row "
      "while the network runs: --calibrate is not needed, and only judges");
  app.add_flag("--equalize", o.equalize,
               "Make ranges of channels between two layers alike, if the answers gain by it");
  app.add_flag("--adaround", o.adaround,
               "Round each weight up or down so that its layer changes least, if the answers gain");
  app.add_flag("--no-bias-correction", o.no_bias_correction, "Leave biases as they are");
  app.add_option("--recipe", o.recipe, "Do as this file says, which an earlier run wrote")
      ->type_name("FILE");
  app.add_option("--budget", o.budget,
                 "Most answers that may change, or with --labels be lost: the layers that hurt "
                 "most stay float until it is kept. Language models: most bits of a weight of the "
                 "layers, such as 4.75: those matrices get more that would lose most")
      ->type_name("0.5%");
  app.add_flag("--report", o.report, "Measure each layer, alone and behind all others");
  app.add_option("--html", o.html, "Write the report with all histograms as a page")
      ->type_name("FILE");
  o.language.Add(app);
  AddNormalization(app, o.normalization);
  o.model.AddThreads(app);
  app.add_flag("--no-checksums", o.model.no_checksums,
               "Do not check the weights against their checksums");
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Convolutions and linear layers get weights of 8 bits with a scale for each output channel,\n"
      "and what they read and give becomes bytes with a scale and a zero point. The result is an\n"
      "ordinary network for all commands; its recipe can be edited and applied again.\n"
      "Example: 256 pictures of a folder, and a report of what it costs\n"
      "  oort quantize net.pnnx.param --calibrate pictures --output net.int8.pnnx.param \\\n"
      "      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --html report.html\n"
      "Example: an encoder of text or a recurrent network, which get along without samples\n"
      "  oort quantize encoder.pnnx.param --dynamic --output encoder.int8.pnnx.param\n"
      "Example: the same network again from its recipe, without any pictures\n"
      "  oort quantize net.pnnx.param --recipe net.int8.recipe.json --output again.pnnx.param\n"
      "Example: a language model in 4 bits, and how far it is from the original\n"
      "  oort quantize model.f16.gguf --weights q4_0 --method gptq --calibrate text.txt \\\n"
      "      --test other.txt --output model.q4_0.gguf\n"
      "Example: 5 bits a weight, those matrices in more that need them, and a page about it\n"
      "  oort quantize model.f16.gguf --budget 5 --calibrate text.txt --html report.html \\\n"
      "      --output model.5.gguf");
  return [options, &app] {
    if (IsLanguageModel(options->model.model)) {
      RefuseForLanguageModel(app, options->model.model);
      return QuantizeLanguageModel(LanguageOf(*options));
    }
    options->language.model = options->model.model;
    options->language.RefuseForNetwork(app);
    return Quantize(*options);
  };
}

}  // namespace oort::cli
