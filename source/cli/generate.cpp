// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <utility>

#include "cli/constraint_options.h"
#include "cli/language.h"
#include "cli/pictures.h"

namespace oort::cli {
namespace {

struct GenerateArguments {
  LanguageOptions language;
  AnswerOptions answer;
  ConstraintOptions form;
  std::string prompt, system, lora;
  std::vector<std::string> images;
  bool raw = false, json = false, ignore_end = false;
  int logprobs = -1;
  int64_t n = 1, best_of = 0, min_tokens = 0;
  BeamOptions beams;
  std::string early_stopping = "no";

  int64_t Made() const { return std::max({n, best_of, beams.width}); }
  /// Whether text can be shown as it comes.
  bool Streams() const { return Made() == 1 && beams.width == 0; }
  void Settle();
};

/// Before anything is loaded: throws a UsageError for what makes no sense.
void GenerateArguments::Settle() {
  if (raw && !system.empty()) throw UsageError("--system has no place in a --raw prompt");
  if (raw && !images.empty()) throw UsageError("--image has no place in a --raw prompt");
  answer.Settle();
  for (const auto& [name, made] : {std::pair("--best-of", best_of), {"--beams", beams.width}}) {
    if (made > 0 && made < n) throw UsageError(std::string(name) + " is at least --n");
  }
  if (beams.width > 0 && (best_of > 0 || answer.Draws() || !answer.stops.empty())) {
    throw UsageError("--beams goes without --best-of, --temperature and --stop");
  }
  if (Made() > 1 && beams.width == 0 && !answer.Draws()) {
    throw UsageError("several answers need a --temperature above 0: without, all are the same");
  }
  beams.stop = early_stopping == "yes"     ? BeamOptions::kEarly
               : early_stopping == "never" ? BeamOptions::kImpossible
                                           : BeamOptions::kUnlikely;
}

std::string ReadPrompt(const GenerateArguments& options) {
  if (options.prompt != "-") return options.prompt;
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

Pictures ReadPictures(const GenerateArguments& options,
                      const std::shared_ptr<const LanguageModel>& model) {
  PictureReader reader(model);
  Pictures pictures;
  for (const std::string& path : options.images) {
    pictures.push_back(reader.Read(std::filesystem::path(path)));
  }
  return pictures;
}

EncodedTalk ReadTalk(const GenerateArguments& options,
                     const std::shared_ptr<const LanguageModel>& model) {
  const std::string text = ReadPrompt(options);
  CheckPrompt(text);
  // Encoder-decoders were trained to answer a text as it is.
  const bool plain = model->info().encodes_prompts && !model->has_chat_template();
  if (plain && !options.system.empty()) {
    throw UsageError("--system needs a chat template, and this model has none");
  }
  if (options.raw || (plain && options.images.empty())) {
    return {model->tokenizer().Encode(text), {}};
  }
  std::vector<Said> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system, {}});
  messages.push_back({"user", text, ReadPictures(options, model)});
  return EncodeTalk(*model, messages);
}

Json LogprobsOf(const GeneratedAnswer& result, const LanguageModel& model) {
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

Json JsonOf(const GenerateArguments& options, const LanguageModel& model,
            const GeneratedAnswer& answer) {
  Json json = {
      {"text", answer.text}, {"token_ids", answer.tokens}, {"finish_reason", Name(answer.finish)}};
  if (!answer.stop.empty()) json["stop"] = answer.stop;
  if (options.answer.Draws()) {
    json["seed"] = options.answer.sampling.seed + static_cast<uint64_t>(answer.index);
  }
  if (options.best_of > 0 || options.beams.width > 0) json["score"] = answer.score;
  if (options.logprobs >= 0) json["logprobs"] = LogprobsOf(answer, model);
  if (!options.language.draft.empty()) {
    json["draft"] = DraftJson(answer.draft, answer.tokens.size());
  }
  return json;
}

void PrintJson(const GenerateArguments& options, const LanguageModel& model,
               const std::vector<int32_t>& prompt, const GenerateResult& result, double load_ms) {
  Json json = JsonOf(options, model, result);
  json["model"] = options.language.model;
  json["prompt_token_ids"] = prompt;
  for (const GeneratedAnswer& other : result.others) {
    json["others"].push_back(JsonOf(options, model, other));
  }
  json["timings"] = {{"load_ms", load_ms},
                     {"prompt_ms", 1e3 * result.timings.prompt_seconds},
                     {"first_token_ms", 1e3 * result.timings.first_token_seconds},
                     {"generate_ms", 1e3 * result.timings.generate_seconds},
                     {"prompt_tokens_per_second", PromptRate(prompt.size(), result)},
                     {"tokens_per_second", AnswerRate(result)}};
  Print(std::cout, json);
}

/// What the engine is made for: answers that have the prompt in common, and else nothing.
EngineOptions EngineFor(const GenerateArguments& options, const LanguageModel& model,
                        GenerateRequest& request) {
  EngineOptions engine = options.language.ForEngine(model);
  if (options.Made() == 1 || engine.memory_limit > 0) return engine;
  const int64_t context = engine.cache_tokens > 0 ? engine.cache_tokens : model.info().context;
  const int64_t prompt = model.info().encodes_prompts ? 1 : std::ssize(request.prompt);
  if (prompt > context) return engine;
  request.max_tokens = std::min(request.max_tokens, context - prompt + 1);
  engine.cache_tokens = options.Made() * KvCache::kBlockTokens *
                        KvCache::BlocksFor(std::min(context, prompt + request.max_tokens));
  return engine;
}

void PrintAnswers(const GenerateResult& result) {
  std::cout << result.text << '\n';
  for (const GeneratedAnswer& other : result.others) std::cout << "\n---\n\n" << other.text << '\n';
}

int Generate(GenerateArguments& options) {
  options.Settle();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  if (!options.lora.empty()) options.language.adapters = {{"lora", options.lora}};
  const auto model = options.language.Load();
  const EncodedTalk talk = ReadTalk(options, model);
  const std::vector<int32_t>& prompt = talk.tokens;
  GenerateRequest request = options.answer.Request(prompt);
  request.pictures = talk.pictures;
  request.sampling.top_logprobs = options.logprobs;
  request.ignore_end = options.ignore_end;
  request.constraint = options.form.Compile(*model);
  request.min_tokens = options.min_tokens;
  if (!options.lora.empty()) request.adapter = "lora";
  request.n = options.n;
  request.best_of = options.best_of;
  request.beams = options.beams;
  Engine engine(model, EngineFor(options, *model, request));
  const double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  InterruptFlag interrupt;
  if (options.Streams() && !options.json) {
    request.on_piece = [&](const GeneratedPiece& piece) {
      std::cout << piece.text << std::flush;
      return true;
    };
  }
  const GenerateResult result = Answer(engine, std::move(request), interrupt);
  if (options.json) {
    PrintJson(options, *model, prompt, result, load_ms);
  } else if (options.Streams()) {
    std::cout << '\n';
  } else {
    PrintAnswers(result);
  }
  return result.finish == FinishReason::kCancelled ? kInterrupted : 0;
}

void AddAnswers(CLI::App& app, GenerateArguments& options) {
  constexpr int64_t kMostAnswers = 128;
  app.add_option("--n", options.n, "So many answers, which differ by their seeds")
      ->check(CLI::Range(int64_t{1}, kMostAnswers));
  app.add_option("--best-of", options.best_of,
                 "Make so many, and give the --n of the highest mean log-probability")
      ->check(CLI::Range(int64_t{1}, kMostAnswers));
  CLI::Option* beams = app.add_option("--beams", options.beams.width,
                                      "Search for the likeliest answer: so many beams")
                           ->check(CLI::Range(int64_t{1}, kMostAnswers));
  app.add_option("--length-penalty", options.beams.length_penalty,
                 "Scores of beams are divided by their length to this power (default: 1)")
      ->needs(beams);
  app.add_option(
         "--early-stopping", options.early_stopping,
         "End the search with as many answers as beams (yes), when more look worse (no, the "
         "default), or when none can be better (never)")
      ->check(CLI::IsMember({"yes", "no", "never"}))
      ->needs(beams);
}

}  // namespace

Action AddGenerate(CLI::App& app) {
  auto options = std::make_shared<GenerateArguments>();
  options->language.Add(app);
  options->language.AddRanks(app);
  options->language.AddContext(app);
  options->language.AddDraft(app);
  app.add_option("--prompt", options->prompt, "What to answer; - reads it from standard input")
      ->required();
  app.add_option("--lora", options->lora,
                 "A LoRA adapter for MODEL: a folder of PEFT, or a GGUF for a GGUF")
      ->check(CLI::ExistingPath);
  app.add_option("--image", options->images,
                 "A picture that the prompt is about: PNG, JPEG, BMP or PPM; may be repeated")
      ->check(CLI::ExistingFile)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--system", options->system, "What the model is told to be");
  app.add_flag("--raw", options->raw, "The prompt is the text itself: no chat template");
  options->answer.Add(app);
  options->form.Add(app);
  AddAnswers(app, *options);
  app.add_option("--min-tokens", options->min_tokens, "Tokens of the answer at least")
      ->check(CLI::NonNegativeNumber);
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
