// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

#include "cli/language.h"
#include "cli/scores.h"

namespace oort::cli {
namespace {

struct PerplexityArguments {
  LanguageOptions language;
  std::string text, reference;
  int64_t window = 512;
  bool window_is_given = false;
  bool json = false;
};

std::string ReadText(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return ReadTextFile(path);
}

Scores Evaluate(const PerplexityArguments& options,
                const std::shared_ptr<const LanguageModel>& model,
                std::span<const int32_t> tokens) {
  ScoredModel judged{model, options.language.ForEngine(*model)}, reference;
  if (!options.reference.empty()) {
    LanguageOptions load = options.language;
    load.model = options.reference;
    load.exact = true;
    // What is judged must not befall what it is judged by.
    load.kv.clear();
    load.activations.clear();
    load.weights.clear();
    reference.model = load.Load();
    reference.options = load.ForEngine(*reference.model);
  }
  return ScoreText(judged, reference, tokens, options.window);
}

void PrintScores(const PerplexityArguments& options, const Scores& scores) {
  const double perplexity = std::exp(scores.loss.mean());
  const Agreement& compared = scores.comparison;
  const double agreement = compared.Percent();
  if (options.json) {
    Json json = {{"model", options.language.model},
                 {"tokens", scores.loss.count()},
                 {"perplexity", perplexity},
                 {"perplexity_error", perplexity * scores.loss.error()},
                 {"loss", scores.loss.mean()}};
    if (scores.compared) {
      json["reference"] = options.reference;
      json["kl_divergence"] = compared.divergence.mean();
      json["kl_divergence_error"] = compared.divergence.error();
      json["top1_agreement_percent"] = agreement;
    }
    Print(std::cout, json);
    return;
  }
  std::cout << "tokens         " << scores.loss.count() << "\nperplexity     "
            << FormatFixed(perplexity, 4) << " ± "
            << FormatFixed(perplexity * scores.loss.error(), 4) << '\n';
  if (!scores.compared) return;
  std::cout << "KL divergence  " << FormatFixed(compared.divergence.mean(), 6) << " ± "
            << FormatFixed(compared.divergence.error(), 6) << " nats a token\nsame top token "
            << FormatFixed(agreement, 2) << " %\n";
}

int Perplexity(PerplexityArguments options) {
  const auto model = options.language.Load();
  if (!options.window_is_given) options.window = std::min(options.window, model->info().context);
  const std::vector<int32_t> tokens = model->tokenizer().Encode(ReadText(options.text));
  if (tokens.size() < 2) {
    throw Error(ErrorCode::kInvalidArgument, "the text has less than two tokens");
  }
  PrintScores(options, Evaluate(options, model, tokens));
  return 0;
}

}  // namespace

Action AddPerplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityArguments>();
  options->language.Add(app);
  options->language.AddRanks(app);
  app.add_option("TEXT", options->text, "A text file; - reads standard input")->required();
  app.add_option("--reference,--against", options->reference,
                 "A model to compare with, run exactly: KL divergence and agreement");
  const CLI::Option* window =
      app.add_option("--window", options->window,
                     "Tokens that are predicted from each other, within the model's context")
          ->capture_default_str()
          ->check(CLI::Range(2, 1 << 20));
  app.add_flag("--json", options->json, "Print all figures as JSON");
  app.footer("Example: oort perplexity model-q4.gguf wiki.txt --reference model-f16.gguf");
  return [options, window] {
    options->window_is_given = window->count() > 0;
    return Perplexity(*options);
  };
}

}  // namespace oort::cli
