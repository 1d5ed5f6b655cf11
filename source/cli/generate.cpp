// SPDX-License-Identifier: MIT
#include <chrono>
#include <iostream>
#include <iterator>

#include "cli/constraint_options.h"
#include "cli/language.h"

namespace oort::cli {
namespace {

struct GenerateArguments {
  LanguageOptions language;
  AnswerOptions answer;
  ConstraintOptions form;
  std::string prompt, system;
  bool raw = false, json = false, ignore_end = false;
  int logprobs = -1;
};

std::string ReadPrompt(const GenerateArguments& options) {
  if (options.prompt != "-") return options.prompt;
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

std::vector<int32_t> PromptTokens(const GenerateArguments& options, const LanguageModel& model) {
  const std::string text = ReadPrompt(options);
  CheckPrompt(text);
  if (options.raw) return model.tokenizer().Encode(text);
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", text});
  return model.EncodeChat(messages);
}

Json LogprobsOf(const GenerateResult& result, const LanguageModel& model) {
  Json list = Json::array();
  for (size_t i = 0; i < result.logprobs.size(); ++i) {
    Json top = Json::array();
    for (const TokenLogprob& entry : result.top[i]) {
      top.push_back({{"token_id", entry.token},
                     {"token", model.tokenizer().Piece(entry.token)},
                     {"logprob", entry.logprob}});
    }
    list.push_back({{"token_id", result.tokens[i]}, {"logprob", result.logprobs[i]}, {"top", top}});
  }
  return list;
}

void PrintJson(const GenerateArguments& options, const LanguageModel& model,
               const std::vector<int32_t>& prompt, const GenerateResult& result, double load_ms) {
  Json json = {{"model", options.language.model},
               {"text", result.text},
               {"token_ids", result.tokens},
               {"prompt_token_ids", prompt},
               {"finish_reason", Name(result.finish)}};
  if (!result.stop.empty()) json["stop"] = result.stop;
  if (options.answer.Draws()) json["seed"] = options.answer.sampling.seed;
  if (options.logprobs >= 0) json["logprobs"] = LogprobsOf(result, model);
  json["timings"] = {{"load_ms", load_ms},
                     {"prompt_ms", 1e3 * result.timings.prompt_seconds},
                     {"first_token_ms", 1e3 * result.timings.first_token_seconds},
                     {"generate_ms", 1e3 * result.timings.generate_seconds},
                     {"prompt_tokens_per_second", PromptRate(prompt.size(), result)},
                     {"tokens_per_second", AnswerRate(result)}};
  Print(std::cout, json);
}

int Generate(GenerateArguments& options) {
  if (options.raw && !options.system.empty()) {
    throw UsageError("--system has no place in a --raw prompt");
  }
  options.answer.Settle();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto model = options.language.Load();
  const std::vector<int32_t> prompt = PromptTokens(options, *model);
  Engine engine(model, options.language.ForEngine(*model));
  const double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  GenerateRequest request = options.answer.Request(prompt);
  request.sampling.top_logprobs = options.logprobs;
  request.ignore_end = options.ignore_end;
  request.constraint = options.form.Compile(*model);
  InterruptFlag interrupt;
  request.on_piece = [&](const GeneratedPiece& piece) {
    if (!options.json) std::cout << piece.text << std::flush;
    return true;
  };
  const GenerateResult result = Answer(engine, std::move(request), interrupt);
  if (options.json) {
    PrintJson(options, *model, prompt, result, load_ms);
  } else {
    std::cout << '\n';
  }
  return result.finish == FinishReason::kCancelled ? kInterrupted : 0;
}

}  // namespace

Action AddGenerate(CLI::App& app) {
  auto options = std::make_shared<GenerateArguments>();
  options->language.Add(app);
  options->language.AddContext(app);
  app.add_option("--prompt", options->prompt, "What to answer; - reads it from standard input")
      ->required();
  app.add_option("--system", options->system, "What the model is told to be");
  app.add_flag("--raw", options->raw, "The prompt is the text itself: no chat template");
  options->answer.Add(app);
  options->form.Add(app);
  app.add_flag("--ignore-end", options->ignore_end, "Go on behind the end of the answer");
  app.add_flag("--json", options->json, "Print text, tokens, seed and timings as JSON");
  app.add_option("--logprobs", options->logprobs,
                 "With --json: log-probabilities, and those of so many most probable tokens")
      ->check(CLI::Range(0, 100))
      ->needs("--json");
  app.footer("Example: oort generate SmolLM2.gguf --prompt \"What is the capital of France?\"");
  return [options] { return Generate(*options); };
}

}  // namespace oort::cli
