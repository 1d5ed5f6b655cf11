// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

#include "cli/language.h"

namespace oort::cli {
namespace {

struct PerplexityArguments {
  LanguageOptions language;
  std::string text, reference;
  int64_t window = 512;
  bool window_is_given = false;
  bool json = false;
};

/// A mean with its standard error.
class Mean {
 public:
  void Add(double value) {
    ++count_;
    const double before = value - mean_;
    mean_ += before / static_cast<double>(count_);
    squares_ += before * (value - mean_);
  }
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double error() const {
    if (count_ < 2) return 0;
    const double n = static_cast<double>(count_);
    return std::sqrt(squares_ / (n - 1) / n);
  }

 private:
  int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
};

double LogSumExp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

size_t Argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// What the model says beside what the reference says of the same place.
struct Agreement {
  Mean divergence;  ///< of the model from the reference, in nats
  int64_t agree = 0;

  void Add(std::span<const float> reference, std::span<const float> logits) {
    const double reference_sum = LogSumExp(reference), sum = LogSumExp(logits);
    double divergence_here = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double log_p = static_cast<double>(reference[i]) - reference_sum;
      const double log_q = static_cast<double>(logits[i]) - sum;
      divergence_here += std::exp(log_p) * (log_p - log_q);
    }
    divergence.Add(divergence_here);
    if (Argmax(reference) == Argmax(logits)) ++agree;
  }
};

struct Scores {
  Mean loss;  ///< minus the log-probability of what came
  Agreement comparison;
  bool compared = false;
};

std::string ReadText(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return ReadTextFile(path);
}

/// Window by window, so that no more than one window's logits of the reference are kept.
Scores Evaluate(const PerplexityArguments& options,
                const std::shared_ptr<const LanguageModel>& model,
                std::span<const int32_t> tokens) {
  std::shared_ptr<const LanguageModel> reference;
  EngineOptions reference_options;
  if (!options.reference.empty()) {
    LanguageOptions load = options.language;
    load.model = options.reference;
    load.exact = true;
    reference = load.Load();
    reference_options = load.ForEngine(*reference);
    if (reference->info().vocabulary != model->info().vocabulary) {
      throw Error(ErrorCode::kInvalidArgument, "the reference has another vocabulary");
    }
  }
  Scores scores;
  scores.compared = reference != nullptr;
  const size_t window = static_cast<size_t>(options.window);
  std::vector<std::vector<float>> expected;
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += window) {
    // One more token than the window, for the last of them to predict.
    const auto part = tokens.subspan(begin, std::min(window + 1, tokens.size() - begin));
    expected.clear();
    if (reference) {
      VisitLogits(reference, part, options.window + 1, reference_options,
                  [&](int64_t, std::span<const float> logits) {
                    expected.emplace_back(logits.begin(), logits.end());
                  });
    }
    VisitLogits(model, part, options.window + 1, options.language.ForEngine(*model),
                [&](int64_t i, std::span<const float> logits) {
                  const size_t index = static_cast<size_t>(i);
                  const size_t next = static_cast<size_t>(part[index + 1]);
                  scores.loss.Add(LogSumExp(logits) - static_cast<double>(logits[next]));
                  if (reference) scores.comparison.Add(expected[index], logits);
                });
  }
  return scores;
}

void PrintScores(const PerplexityArguments& options, const Scores& scores) {
  const double perplexity = std::exp(scores.loss.mean());
  const Agreement& compared = scores.comparison;
  const double agreement = 100.0 * static_cast<double>(compared.agree) /
                           static_cast<double>(std::max<int64_t>(1, compared.divergence.count()));
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
  app.add_option("TEXT", options->text, "A text file; - reads standard input")->required();
  app.add_option("--reference", options->reference,
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
