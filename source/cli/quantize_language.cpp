// SPDX-License-Identifier: MIT
#include "llm_quantize/quantize_language.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/quantize_language.h"
#include "cli/quantize_language_html.h"
#include "cli/scores.h"
#include "cli/text.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort::cli {
namespace {

using llm_quantize::LanguageQuantizeResult;
using llm_quantize::LanguageRecipe;
using llm_quantize::MatrixReport;

constexpr int64_t kDefaultWindow = 512;
constexpr const char* kLanguageOptions[] = {
    "--group",  "--asymmetric",  "--imatrix", "--write-imatrix", "--tokens",
    "--window", "--test-tokens", "--damping", "--file-order",    "--resume"};

std::string JoinedTexts(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += ReadTextFile(file);
  return text;
}

std::vector<int32_t> TokensOf(const LanguageQuantizeArguments& options,
                              const std::vector<std::string>& files) {
  return llm_quantize::EncodeText(options.model, JoinedTexts(files));
}

/// The most that a model's context allows.
int64_t WindowOf(const LanguageQuantizeArguments& options) {
  return std::min(options.window.value_or(kDefaultWindow),
                  Checkpoint::Open(options.model)->config().context);
}

double ParseBits(const std::string& text) {
  try {
    size_t end = 0;
    const double bits = std::stod(text, &end);
    if (end == text.size() && bits >= 1 && bits <= 32) return bits;
  } catch (const std::logic_error&) {  // said below
  }
  throw UsageError("--budget " + text + ": expected bits of a weight, such as 4.75");
}

/// What the options do not say, the recipe does. What it picked is for its own types alone.
LanguageQuantizeArguments WithRecipe(LanguageQuantizeArguments options, LanguageRecipe& recipe) {
  if (options.recipe.empty()) return options;
  try {
    recipe = llm_quantize::ParseLanguageRecipe(ReadTextFile(options.recipe));
  } catch (const Error& error) {
    throw error.WithContext(options.recipe + ": ");
  }
  if (!options.weights.empty() || !options.budget.empty() || options.group || options.asymmetric) {
    recipe.matrices.clear();
  } else {
    options.weights = recipe.weights;
    options.group = recipe.group;
    options.asymmetric = recipe.asymmetric.value_or(false);
    // The budget was kept by what was picked.
    if (recipe.budget && recipe.matrices.empty()) options.budget = FormatNumber(*recipe.budget, 9);
  }
  if (options.method.empty()) options.method = recipe.method;
  if (!options.tokens) options.tokens = recipe.tokens;
  if (!options.window) options.window = recipe.window;
  if (!options.damping) options.damping = recipe.damping;
  if (recipe.file_order.value_or(false)) options.file_order = true;
  return options;
}

llm_quantize::LanguageQuantizeOptions WorkOf(const LanguageQuantizeArguments& options,
                                             const LanguageRecipe& recipe) {
  llm_quantize::LanguageQuantizeOptions work;
  work.weights = options.weights.empty() ? "int4" : options.weights;
  work.group = options.group;
  work.asymmetric = options.asymmetric;
  work.rules = recipe.rules;
  work.picked = recipe.matrices;
  if (!options.budget.empty()) work.budget = ParseBits(options.budget);
  if (!options.method.empty()) {
    work.method = llm_quantize::MethodNamed(options.method);
  } else if (options.calibrate.empty()) {
    work.method =
        options.imatrix.empty() ? llm_quantize::Method::kSearch : llm_quantize::Method::kImportance;
  }
  if (work.method == llm_quantize::Method::kSmooth) {
    if (!options.weights.empty()) {
      throw UsageError(
          "--method smooth leaves weights in the bits that they have: leave out --weights "
          "(--activations rounds them where the model runs)");
    }
    work.weights.clear();
  }
  work.most_tokens = options.tokens.value_or(work.most_tokens);
  work.window = WindowOf(options);
  work.damping = options.damping.value_or(work.damping);
  work.act_order = !options.file_order;
  work.resume = options.resume;
  work.threads = options.threads;
  if (!options.imatrix.empty()) {
    work.importance =
        llm_quantize::ReadImportance(options.imatrix, Checkpoint::Open(options.model)->config());
  }
  if (!options.calibrate.empty()) work.tokens = TokensOf(options, options.calibrate);
  return work;
}

/// What was done, so that it can be done again.
LanguageRecipe RecipeOf(const llm_quantize::LanguageQuantizeOptions& work,
                        const LanguageQuantizeResult& result) {
  LanguageRecipe recipe;
  recipe.weights = work.weights;
  recipe.method = llm_quantize::Name(work.method);
  recipe.group = work.group;
  if (work.asymmetric) recipe.asymmetric = true;
  recipe.budget = work.budget;
  if (result.tokens > 0) {
    recipe.tokens = work.most_tokens;
    recipe.window = work.window;
  }
  if (work.method == llm_quantize::Method::kGptq) {
    recipe.damping = work.damping;
    recipe.file_order = !work.act_order;
  }
  recipe.rules = work.rules;
  if (work.method == llm_quantize::Method::kSmooth) return recipe;  // matrices keep their types
  for (const MatrixReport& matrix : result.matrices) {
    llm_quantize::MatrixType& type = recipe.matrices[matrix.name];
    if (matrix.kept) continue;
    type.format = matrix.format;
    type.group = matrix.group;
  }
  return recipe;
}

struct Outcome {
  LanguageQuantizeResult result;
  std::string method;
  double seconds = 0;
  std::optional<Scores> scores;
};

ScoredModel LoadExact(const std::string& path, int threads) {
  LanguageModelOptions load;
  load.exact = true;
  ScoredModel scored{LanguageModel::Load(path, load), {}};
  scored.options.threads = threads;
  return scored;
}

Scores ScoresOf(const LanguageQuantizeArguments& options) {
  std::vector<int32_t> tokens = TokensOf(options, options.test);
  if (tokens.size() < 2) {
    throw Error(ErrorCode::kInvalidArgument, "the text of --test has less than two tokens");
  }
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(options.test_tokens)));
  return ScoreText(LoadExact(options.out, options.threads),
                   LoadExact(options.model, options.threads), tokens, WindowOf(options));
}

void PrintMatrices(std::ostream& out, const LanguageQuantizeResult& result) {
  Table table({{"matrix"}, {"type"}, {"bytes", Table::kRight}, {"error %", Table::kRight}});
  for (const MatrixReport* matrix : RankedMatrices(result)) {
    table.Row({matrix->name, std::string(Name(matrix->format)) + (matrix->kept ? " (kept)" : ""),
               FormatBytes(static_cast<double>(matrix->bytes)),
               FormatFixed(100 * matrix->relative_error, 4)});
  }
  table.Print(out);
}

double PerplexityOf(const Mean& loss) { return std::exp(loss.mean()); }

void PrintOutcome(std::ostream& out, const LanguageQuantizeArguments& options,
                  const Outcome& outcome) {
  out << options.out << "  " << outcome.method << ", "
      << FormatFixed(outcome.result.BitsPerWeight(), 2) << " bits a weight ("
      << FormatFixed(outcome.result.LayerBitsPerWeight(), 2) << " in the layers), "
      << FormatFixed(outcome.seconds, 1) << " s\n";
  if (outcome.result.tokens > 0) {
    out << "calibrated with " << outcome.result.tokens << " tokens\n";
  }
  if (options.report) PrintMatrices(out, outcome.result);
  if (!outcome.scores) return;
  const Scores& scores = *outcome.scores;
  const Agreement& compared = scores.comparison;
  out << "tested with    " << scores.loss.count() << " tokens\nperplexity     "
      << FormatFixed(PerplexityOf(scores.loss), 4) << ", of the original "
      << FormatFixed(PerplexityOf(scores.reference_loss), 4) << "\nKL divergence  "
      << FormatFixed(compared.divergence.mean(), 6) << " ± "
      << FormatFixed(compared.divergence.error(), 6) << " nats a token\nsame top token "
      << FormatFixed(compared.Percent(), 2) << " %\n";
}

Json OutcomeJson(const LanguageQuantizeArguments& options, const Outcome& outcome) {
  Json json = {{"output", options.out},
               {"method", outcome.method},
               {"tokens", outcome.result.tokens},
               {"recipe", RecipeBeside(options.out).string()},
               {"bits_per_weight", outcome.result.BitsPerWeight()},
               {"layer_bits_per_weight", outcome.result.LayerBitsPerWeight()},
               {"seconds", outcome.seconds}};
  Json matrices = Json::array();
  for (const MatrixReport& matrix : outcome.result.matrices) {
    matrices.push_back({{"name", matrix.name},
                        {"type", Name(matrix.format)},
                        {"group", matrix.group},
                        {"kept", matrix.kept},
                        {"bytes", matrix.bytes},
                        {"relative_error", matrix.relative_error},
                        {"seconds", matrix.seconds}});
  }
  json["matrices"] = std::move(matrices);
  if (!outcome.scores) return json;
  const Scores& scores = *outcome.scores;
  json["test"] = {{"tokens", scores.loss.count()},
                  {"perplexity", PerplexityOf(scores.loss)},
                  {"original_perplexity", PerplexityOf(scores.reference_loss)},
                  {"kl_divergence", scores.comparison.divergence.mean()},
                  {"kl_divergence_error", scores.comparison.divergence.error()},
                  {"top1_agreement_percent", scores.comparison.Percent()}};
  return json;
}

}  // namespace

void LanguageQuantizeArguments::Add(CLI::App& app) {
  app.add_option("--group", group,
                 "Language models, int4 and int8: weights that share a scale (32)")
      ->type_name("N")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}));
  app.add_flag("--asymmetric", asymmetric,
               "Language models, int4 and int8: groups have a minimum, too");
  app.add_option("--imatrix", imatrix,
                 "Language models: the importance of columns, a file of llama.cpp's or of "
                 "--write-imatrix, instead of a text")
      ->type_name("FILE");
  app.add_option("--write-imatrix", write_imatrix,
                 "Language models: write what --calibrate showed, for llama.cpp, too")
      ->type_name("FILE");
  app.add_option("--tokens", tokens, "Language models: most tokens of --calibrate (16384)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--window", window, "Language models: tokens that see each other (512)")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--test-tokens", test_tokens, "Language models: most tokens of --test")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 32));
  app.add_option("--damping", damping,
                 "gptq: share of the mean diagonal that is added to it, for a text that says "
                 "little of some inputs (0.01)")
      ->type_name("SHARE")
      ->check(CLI::Range(1e-6, 1.0));
  app.add_flag("--file-order", file_order,
               "gptq: round columns from left to right, not those with the largest inputs first");
  app.add_flag("--resume", resume,
               "Language models: keep what is done in OUTPUT.partial, and go on from there if an "
               "earlier run was stopped");
}

void LanguageQuantizeArguments::RefuseForNetwork(const CLI::App& app) const {
  for (const char* name : kLanguageOptions) {
    if (app.count(name) > 0) {
      throw UsageError(std::string(name) + " is for language models: '" + model +
                       "' is no GGUF, folder of Hugging Face or checkpoint of llama2.c");
    }
  }
}

std::filesystem::path RecipeBeside(const std::filesystem::path& output) {
  std::filesystem::path stem = std::filesystem::path(output).replace_extension("");
  if (stem.extension() == ".pnnx") stem.replace_extension("");
  return stem.string() + ".recipe.json";
}

int QuantizeLanguageModel(const LanguageQuantizeArguments& given) {
  LanguageRecipe recipe;
  const LanguageQuantizeArguments options = WithRecipe(given, recipe);
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  {
    const InterruptGuard guard;
    std::stop_source stop;
    llm_quantize::LanguageQuantizeOptions work = WorkOf(options, recipe);
    work.stop = stop.get_token();
    ProgressLine line;
    const ProgressFunction show = line.Function();
    work.progress = [&](const Progress& progress) {
      if (show) show(progress);
      if (InterruptGuard::interrupted()) stop.request_stop();
    };
    outcome.method = llm_quantize::Name(work.method);
    outcome.result = llm_quantize::QuantizeLanguage(options.model, options.out, work);
    WriteTextFile(RecipeBeside(options.out).string(),
                  llm_quantize::LanguageRecipeText(RecipeOf(work, outcome.result)));
    if (!options.write_imatrix.empty()) {
      if (outcome.result.tokens == 0) {
        throw UsageError("--write-imatrix needs --calibrate and a method that reads it");
      }
      llm_quantize::WriteImportance(outcome.result.importance, options.calibrate, work.window,
                                    options.write_imatrix);
    }
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!options.test.empty()) outcome.scores = ScoresOf(options);
  if (!options.html.empty()) {
    std::ostringstream text;
    LanguageQuantizeArguments summary = options;
    summary.report = false;  // the page has a table of its own
    PrintOutcome(text, summary, outcome);
    WriteTextFile(options.html, LanguageQuantizeHtml(options.model, text.str(), outcome.result));
  }
  if (options.json) {
    Print(std::cout, OutcomeJson(options, outcome));
  } else {
    PrintOutcome(std::cout, options, outcome);
  }
  return 0;
}

}  // namespace oort::cli
