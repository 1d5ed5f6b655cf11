// SPDX-License-Identifier: MIT
#include "cli/language.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <random>

#include "cli/progress.h"
#include "parser/huggingface/draft_heads.h"
#include "text/utf8.h"

namespace oort::cli {
namespace {

std::atomic<bool> interrupted = false;
struct sigaction before_interrupt;

/// More than any context has.
constexpr int64_t kMostTokens = int64_t{1} << 40;

/// CLI11 takes what is below 0 for the largest number of an unsigned type. A Validator's function:
/// what it says is wrong, or nothing.
std::string IsNoNegative(const std::string& text) {
  return text.starts_with('-') ? "Value " + text + " is negative" : std::string();
}

/// And what is too large as well.
std::string IsSeed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::string() : "Value " + text + " is no integer from 0 to 2^64 - 1";
}

double Rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

}  // namespace

void LanguageOptions::AddRandom(CLI::App& app, CLI::Option* file) {
  const std::vector<std::string_view> known = LanguageModel::RandomNames();
  app.add_option("--random", random, "Instead of MODEL: the shape of one, with random weights")
      ->check(CLI::IsMember(std::vector<std::string>(known.begin(), known.end())))
      ->excludes(file);
}

void LanguageOptions::AddWeights(CLI::App& app) {
  app.add_option("--weights", weights,
                 "What weights become while they are loaded: int8, int4, bf16 or f16 (default: as "
                 "in the file; random ones: bf16)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"int8", "int4", "bf16", "f16", "f32"}));
  app.add_option("--group", group, "Weights of int8 and int4 that share a scale (default 32)")
      ->type_name("N")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}));
}

void LanguageOptions::AddActivations(CLI::App& app) {
  app.add_option("--activations", activations,
                 "On a Hopper GPU: products of the layers are of int8 or fp8 (e4m3), weights "
                 "always, activations where there are many rows (default: of 16 bits)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"int8", "fp8"}));
}

CLI::Option* AddExact(CLI::App& app, std::optional<bool>& exact, const std::string& help) {
  return app.add_flag_function(
      "--exact,!--fast", [&exact](int64_t count) { exact = count > 0; }, help);
}

void LanguageOptions::Add(CLI::App& app, bool or_random) {
  CLI::Option* file = app.add_option(
      "MODEL", model, "A GGUF file, a folder of Hugging Face, or a llama2.c checkpoint");
  if (or_random) {
    AddRandom(app, file);
  } else {
    file->required();
  }
  AddWeights(app);
  AddExact(app, exact,
           "--exact keeps activations in f32, --fast rounds them in products (default: --fast; on "
           "a GPU --exact for models below 512 MB, and for t5 and bart)");
  device.Add(app);
  AddActivations(app);
  app.add_option("--kv", kv,
                 "How keys and values are kept: f32, f16, int8, on a CPU k6v4 (keys of 6 bits, "
                 "values of 4) "
                 "or, on a GPU, fp8 (default: f16; f32 "
                 "with --exact)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"f32", "f16", "int8", "fp8", "k6v4"}));
  AddThreads(app, threads);
}

void LanguageOptions::AddContext(CLI::App& app) {
  app.add_option("--context", context,
                 "Tokens that prompt and answer may have together (default: as many as the model "
                 "was made for, 8192 at most)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
  app.add_option(
         "--memory-limit", memory_limit,
         "Bytes (or 20GB) of the device for weights, activations and the cache, which takes "
         "what is left (default: no limit)")
      ->check(CLI::Validator(IsNoNegative, "", "not negative"))
      ->transform(CLI::AsSizeValue(true));
}

void LanguageOptions::AddDraft(CLI::App& app) {
  CLI::Option* drafter = app.add_option(
      "--draft", draft,
      "Who guesses the next tokens, which a step then checks together: ngram (what followed the "
      "last tokens before), a smaller model of the same vocabulary, or a folder of Medusa's heads "
      "for this one. Answers stay the same");
  drafter->type_name("ngram|MODEL|HEADS");
  app.add_option("--draft-tokens", draft_tokens,
                 "Guesses in a step (default: as many as pay, none where none do)")
      ->type_name("N")
      ->check(CLI::Range(1, 15))
      ->needs(drafter);
}

std::shared_ptr<const LanguageModel> LanguageOptions::Load() const {
  if (group && !weights.starts_with("int")) {
    throw UsageError("--group needs --weights int8 or --weights int4");
  }
  const int64_t group_size = group.value_or(LanguageModelOptions().group);
  ProgressLine line;
  LanguageModelOptions options;
  options.exact = exact;
  options.activations = activations;
  options.device = device.Get();
  options.isa = isa;
  options.progress = line.Function();
  options.ranks = Ranks();
  if (draft != "ngram" && IsDraftHeads(draft)) options.draft_heads = draft;
  std::shared_ptr<const LanguageModel> loaded;
  if (!random.empty()) {
    loaded = LanguageModel::Random(random, weights.empty() ? "bf16" : weights, group_size, options);
  } else {
    options.weights = weights;
    options.group = group_size;
    options.adapters = adapters;
    if (model.empty()) throw UsageError("name a MODEL, or a shape: --random");
    loaded = LanguageModel::Load(model, options);
  }
  if (loaded->rank() == 0) return loaded;
  loaded->Follow();
  throw LedToTheEnd();
}

EngineOptions LanguageOptions::ForEngine(const LanguageModel& loaded) const {
  EngineOptions options;
  options.threads = threads;
  if (context > loaded.info().context) {
    throw UsageError("--context " + std::to_string(context) + ": the model was made for " +
                     std::to_string(loaded.info().context) + " tokens at most");
  }
  options.cache_tokens = context;
  options.memory_limit = memory_limit;
  if (!kv.empty()) options.kv = KvTypeOf(kv);
  options.draft.tokens = draft_tokens;
  if (draft == "ngram") {
    options.draft.source = DraftOptions::kNgram;
  } else if (loaded.draft_heads()) {
    options.draft.source = DraftOptions::kHeads;
  } else if (!draft.empty()) {
    ProgressLine line;
    LanguageModelOptions load;
    load.exact = exact;
    load.device = device.Get();
    load.isa = isa;
    load.progress = line.Function();
    options.draft.source = DraftOptions::kModel;
    options.draft.model = LanguageModel::Load(draft, load);
  }
  return options;
}

namespace {

/// "17=-2.5"
std::pair<int32_t, float> ParseBias(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  std::pair<int32_t, float> bias;
  const char *begin = text.data(), *end = begin + text.size();
  const auto token = std::from_chars(begin, begin + equals, bias.first);
  bool whole = equals < text.size() && token.ec == std::errc() && token.ptr == begin + equals;
  if (whole) {
    const auto number = std::from_chars(begin + equals + 1, end, bias.second);
    whole = number.ec == std::errc() && number.ptr == end;
  }
  if (!whole) throw UsageError("--logit-bias takes ID=NUMBER, not '" + text + "'");
  return bias;
}

}  // namespace

void AnswerOptions::Add(CLI::App& app) {
  app.add_option("--max-tokens", max_tokens, "Tokens of the answer at most")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, kMostTokens));
  const auto number = [&](const char* name, auto& target, const char* text) {
    app.add_option(name, target, text)->capture_default_str();
  };
  number("--temperature", sampling.temperature,
         "0: always the most probable token (argmax); else draws");
  number("--top-k", sampling.top_k, "Pick among the k most probable tokens (0: all)");
  number("--top-p", sampling.top_p, "Pick among the most probable that sum to p");
  number("--min-p", sampling.min_p, "Pick among those at least this share as likely");
  number("--repetition-penalty", sampling.repetition_penalty,
         "Divides the logits of tokens that were there already");
  number("--presence-penalty", sampling.presence_penalty,
         "Taken from logits of tokens that the answer has");
  number("--frequency-penalty", sampling.frequency_penalty,
         "The same for each time that it has them");
  app.add_option("--logit-bias", biases,
                 "Added to the logit of a token: ID=NUMBER, -inf forbids it")
      ->type_name("ID=NUMBER");
  app.add_option("--seed", seed,
                 "The same seed gives the same answer (default: another one each time)")
      ->type_name("N")
      ->check(CLI::Validator(IsSeed, "", "seed"));
  app.add_option("--stop", stops, "End the answer before this text (may be given several times)");
}

void AnswerOptions::Settle() {
  for (const std::string& bias : biases) sampling.logit_bias.push_back(ParseBias(bias));
  for (const std::string& stop : stops) {
    if (stop.empty()) throw UsageError("--stop needs a text");
  }
  if (Draws()) sampling.seed = seed ? *seed : std::random_device()();
  try {
    const Sampler sampler(sampling);
  } catch (const Error& error) {
    // "top_p must be …" is called --top-p here.
    std::string message = error.what();
    std::replace(message.begin(), message.begin() + static_cast<ptrdiff_t>(message.find(' ')), '_',
                 '-');
    throw UsageError("--" + message);
  }
  const char* unused = sampling.top_k > 0   ? "--top-k"
                       : sampling.top_p < 1 ? "--top-p"
                       : sampling.min_p > 0 ? "--min-p"
                                            : nullptr;
  if (unused != nullptr && !Draws()) {
    throw UsageError(std::string(unused) +
                     " needs a --temperature above 0: without, the most probable token is picked");
  }
}

void CheckPrompt(std::string_view text) {
  if (!text::IsValidUtf8(text))
    throw Error(ErrorCode::kInvalidArgument, "the prompt is no valid UTF-8");
}

GenerateRequest AnswerOptions::Request(std::vector<int32_t> prompt) const {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  request.stops = stops;
  return request;
}

double PromptRate(size_t prompt_tokens, const GenerateResult& result) {
  if (result.tokens.empty()) return 0;  // nor was all of the prompt read
  return Rate(static_cast<double>(prompt_tokens), result.timings.prompt_seconds);
}

double AnswerRate(const GenerateResult& result) {
  const double tokens = static_cast<double>(result.tokens.size());
  return tokens > 1 ? Rate(tokens - 1, result.timings.generate_seconds) : 0;
}

/// Each step gives one token, and those that were guessed right.
static double TokensPerStep(const DraftCounts& draft, size_t tokens) {
  const auto count = static_cast<double>(tokens);
  return tokens == 0 ? 0 : count / std::max(1.0, count - static_cast<double>(draft.accepted));
}

Json DraftJson(const DraftCounts& draft, size_t tokens) {
  return {{"steps", draft.steps},
          {"drafted", draft.drafted},
          {"accepted", draft.accepted},
          {"accepted_at", draft.accepted_at},
          {"tokens_per_step", TokensPerStep(draft, tokens)}};
}

std::string DraftSummary(const DraftCounts& draft, size_t tokens) {
  if (draft.steps == 0) return {};
  return "; " + FormatFixed(TokensPerStep(draft, tokens), 2) + " tokens a step, " +
         std::to_string(draft.accepted) + " of " + std::to_string(draft.drafted) + " guesses right";
}

std::string Summary(size_t prompt_tokens, const GenerateResult& result) {
  return "prompt " + std::to_string(prompt_tokens) + " tokens, " +
         FormatFixed(PromptRate(prompt_tokens, result), 1) + " tokens/s; answer " +
         std::to_string(result.tokens.size()) + " tokens, " + FormatFixed(AnswerRate(result), 1) +
         " tokens/s; first token after " +
         FormatFixed(1e3 * result.timings.first_token_seconds, 0) + " ms" +
         DraftSummary(result.draft, result.tokens.size());
}

GenerateResult Answer(Engine& engine, GenerateRequest request, InterruptFlag& interrupt) {
  const int64_t id = engine.Submit(std::move(request));
  try {
    while (engine.Step()) {
      if (interrupt.Take()) engine.Cancel(id);
    }
  } catch (...) {
    engine.Cancel(id);
    throw;
  }
  return engine.Take(id).value();
}

InterruptFlag::InterruptFlag() {
  interrupted = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  sigaction(SIGINT, &action, &before_interrupt);  // no SA_RESTART: waiting for input ends, too
}

InterruptFlag::~InterruptFlag() { sigaction(SIGINT, &before_interrupt, nullptr); }

bool InterruptFlag::Take() { return interrupted.exchange(false); }

bool InterruptFlag::WaitForInput() const {
  // The signal is let through only while ppoll waits: none is missed between looking and waiting.
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  int ready = 0;
  while (!interrupted && ready == 0) {
    ready = ppoll(&input, 1, nullptr, &before);
    if (ready < 0 && errno == EINTR) ready = 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !interrupted;
}

}  // namespace oort::cli
