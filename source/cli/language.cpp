// SPDX-License-Identifier: MIT
#include "cli/language.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "cli/progress.h"
#include "core/cpu_limits.h"

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
      ->type_name("NAME");
  app.add_option("--group", group, "Weights of int8 and int4 that share a scale")
      ->type_name("N")
      ->capture_default_str();
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
  app.add_flag("--exact,!--fast", exact,
               "Keep activations in f32, the reference, or round them in products (default: fast, "
               "but of small models on a GPU)");
  device.Add(app);
  app.add_option("--kv", kv, "How keys and values are kept: f32, f16 or int8");
  app.add_option("--threads", threads, "Threads (default: all that the process may use)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
}

void LanguageOptions::AddContext(CLI::App& app) {
  app.add_option("--context", context, "Tokens that prompt and answer may have together")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
  app.add_option(
         "--memory-limit", memory_limit,
         "Bytes (or 20GB) of the device for weights, activations and the cache, which takes "
         "what is left")
      ->check(CLI::Validator(IsNoNegative, "", "not negative"))
      ->transform(CLI::AsSizeValue(true));
}

std::shared_ptr<const LanguageModel> LanguageOptions::Load() const {
  ProgressLine line;
  LanguageModelOptions options;
  options.exact = exact;
  options.device = device.Get();
  options.isa = isa;
  options.progress = line.Function();
  if (!random.empty()) {
    return LanguageModel::Random(random, weights.empty() ? "bf16" : weights, group, options);
  }
  options.weights = weights;
  options.group = group;
  if (model.empty()) throw Error(ErrorCode::kInvalidArgument, "name a MODEL, or a shape: --random");
  return LanguageModel::Load(model, options);
}

EngineOptions LanguageOptions::ForEngine(const LanguageModel& loaded) const {
  EngineOptions options;
  options.threads = threads;
  options.cache_tokens = std::min(context, loaded.info().context);
  options.memory_limit = memory_limit;
  if (!kv.empty()) options.kv = KvTypeOf(kv);
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
  app.add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Pick among the k likeliest tokens (0: all)");
  app.add_option("--top-p", sampling.top_p, "Pick among the likeliest that sum to p");
  app.add_option("--min-p", sampling.min_p, "Pick among those at least this share as likely");
  app.add_option("--repetition-penalty", sampling.repetition_penalty,
                 "Divides the logits of tokens that were there already");
  app.add_option("--presence-penalty", sampling.presence_penalty,
                 "Taken from logits of tokens that the answer has");
  app.add_option("--frequency-penalty", sampling.frequency_penalty,
                 "The same for each time that it has them");
  app.add_option("--logit-bias", biases,
                 "Added to the logit of a token: ID=NUMBER, -inf forbids it")
      ->type_name("ID=NUMBER");
  app.add_option("--seed", sampling.seed, "The same seed gives the same answer")
      ->type_name("N")
      ->check(CLI::Validator(IsSeed, "", "seed"));
  app.add_option("--stop", stops, "End the answer before this text (may be given several times)");
}

GenerateRequest AnswerOptions::Request(std::vector<int32_t> prompt) const {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  for (const std::string& bias : biases) request.sampling.logit_bias.push_back(ParseBias(bias));
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

std::string Summary(size_t prompt_tokens, const GenerateResult& result) {
  return "prompt " + std::to_string(prompt_tokens) + " tokens, " +
         FormatFixed(PromptRate(prompt_tokens, result), 1) + " tokens/s; answer " +
         std::to_string(result.tokens.size()) + " tokens, " + FormatFixed(AnswerRate(result), 1) +
         " tokens/s; first token after " +
         FormatFixed(1e3 * result.timings.first_token_seconds, 0) + " ms";
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
