// SPDX-License-Identifier: MIT
// What many requests take of the cache, and what they find in it: memory at full load, prefixes of
// conversations, and several answers to one prompt. Prints a JSON object as docs/data has them.
//   bench_requests [MODEL] [--threads N] [--only memory|conversations|samples] [--processor-time]
//                  [--machine WORDS] [--commit WORDS] [--date WORDS] [--small]
// --processor-time: times are what the process spent, not what passed. With one thread that is what
// the work costs, even on a machine that others use, too.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "oort/engine.h"
#include "oort/kv_cache.h"

namespace oort::bench {
namespace {

constexpr int64_t kBlock = KvCache::kBlockTokens;

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Settings {
  int threads = 0;
  bool small = false;
  bool processor_time = false;
  std::string only;  ///< one of the three benchmarks; empty: all of them
};

struct Figure {
  std::string what;
  double value = 0;
  std::string unit, goal;
};

class RequestsBench {
 public:
  RequestsBench(std::shared_ptr<const LanguageModel> model, const Settings& settings)
      : model_(std::move(model)),
        threads_(settings.threads),
        small_(settings.small),
        processor_time_(settings.processor_time) {}

  std::vector<Figure> Run(const std::string& only) {
    if (only.empty() || only == "memory") Memory();
    if (only.empty() || only == "conversations") Conversations();
    if (only.empty() || only == "samples") Samples();
    return figures_;
  }

 private:
  double Now() const {
    if (processor_time_) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }

  double FirstTokenSeconds(Engine& engine, std::vector<int32_t> prompt) const {
    const double start = Now();
    engine.Generate(Request(std::move(prompt), 1));
    return Now() - start;
  }

  std::vector<int32_t> Tokens(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(
          static_cast<int32_t>(random_() % static_cast<uint64_t>(model_->info().vocabulary)));
    }
    return tokens;
  }

  static GenerateRequest Request(std::vector<int32_t> prompt, int64_t tokens) {
    GenerateRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = tokens;
    request.ignore_end = true;
    return request;
  }

  /// Requests of lengths that differ by a factor of ten and more, of which some always wait: how
  /// much of the blocks in use holds nothing, step by step.
  void Memory() {
    const int64_t requests = small_ ? 6 : 96;
    const int64_t scale = small_ ? 1 : 4;
    Engine engine(model_, {.threads = threads_, .cache_tokens = 1024 * scale, .most_running = 64});
    std::lognormal_distribution<double> length(std::log(40.0 * static_cast<double>(scale)), 0.7);
    const auto draw = [&] {
      return std::clamp<int64_t>(std::lround(length(random_)), 8, 256 * scale);
    };
    for (int64_t i = 0; i < requests; ++i) engine.Submit(Request(Tokens(draw()), draw()));
    double empty = 0, unused = 0, running = 0;
    int64_t steps = 0;
    const double start = Now();
    while (engine.Step()) {
      const EngineStats stats = engine.stats();
      if (stats.waiting == 0 || stats.used_blocks == 0) continue;
      const double places = static_cast<double>(stats.used_blocks * kBlock);
      empty += 1 - static_cast<double>(stats.used_tokens) / places;
      unused += 1 - static_cast<double>(stats.used_blocks) / static_cast<double>(stats.blocks);
      running += static_cast<double>(stats.running);
      ++steps;
    }
    const double seconds = Now() - start;
    const double count = static_cast<double>(std::max<int64_t>(steps, 1));
    Add("full load, mixed lengths: places in used blocks that hold no token", 100 * empty / count,
        "%", "under 4");
    Add("the same: blocks that no running request uses", 100 * unused / count, "%", "");
    Add("the same: requests that run", running / count, "", "");
    Add("the same: times that one of " + std::to_string(requests) + " requests was interrupted",
        static_cast<double>(engine.stats().preemptions), "", "");
    Add("the same: tokens of answers a second",
        static_cast<double>(engine.stats().generated_tokens) / seconds, "", "");
  }

  /// Conversations that share a system prompt of 1000 tokens, one turn after the other.
  void Conversations() {
    const size_t conversations = small_ ? 2 : 32;
    const int turns = small_ ? 2 : 8;
    constexpr int64_t kAsked = 16, kAnswered = 24;
    const std::vector<int32_t> system = Tokens(small_ ? 100 : 1000);
    Engine engine(model_, {.threads = threads_, .cache_tokens = small_ ? 1024 : 16384});
    std::vector<std::vector<int32_t>> texts(conversations, system);
    engine.Generate(Request(system, 1));
    std::vector<double> first, short_first;
    int64_t prompts = 0, reused = 0;
    for (int turn = 0; turn < turns; ++turn) {
      for (std::vector<int32_t>& text : texts) {
        const std::vector<int32_t> asked = Tokens(kAsked);
        text.insert(text.end(), asked.begin(), asked.end());
        const double start = Now();
        double answered = 0;
        GenerateRequest request = Request(text, kAnswered);
        request.on_piece = [&](const GeneratedPiece&) {
          if (answered == 0) answered = Now();
          return true;
        };
        const GenerateResult result = engine.Generate(std::move(request));
        first.push_back(answered - start);
        prompts += static_cast<int64_t>(text.size());
        reused += result.reused_tokens;
        text.insert(text.end(), result.tokens.begin(), result.tokens.end());
        // Both by turns, so that they meet the machine in one state.
        short_first.push_back(FirstTokenSeconds(engine, Tokens(kAsked)));
      }
    }
    Add(std::to_string(conversations) + " conversations of " + std::to_string(turns) +
            " turns behind a system prompt of " + std::to_string(system.size()) +
            " tokens: prompt tokens that were in the cache",
        100 * static_cast<double>(reused) / static_cast<double>(prompts), "%", "at least 90");
    Add("a turn of 16 tokens: until the first token", 1e3 * Median(first), "ms", "");
    Add("the same for a prompt of 16 tokens", 1e3 * Median(short_first), "ms", "");
    Add("turn / prompt of 16 tokens", Median(first) / Median(short_first), "", "at most 1.5");
  }

  /// Eight answers of 64 tokens to a prompt of 512, beside eight requests.
  void Samples() {
    const std::vector<int32_t> prompt = Tokens(small_ ? 40 : 512);
    const int64_t tokens = small_ ? 8 : 64;
    constexpr int64_t kAnswers = 8;
    std::array<int64_t, 2> most{};
    std::array<std::vector<std::vector<int32_t>>, 2> said;
    for (const bool together : {false, true}) {
      Engine engine(
          model_,
          {.threads = threads_, .cache_tokens = small_ ? 1024 : 8192, .reuse_prefixes = false});
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < (together ? 1 : kAnswers); ++i) {
        GenerateRequest request = Request(prompt, tokens);
        request.n = together ? kAnswers : 1;
        request.sampling.temperature = 1;
        request.sampling.seed = 7 + static_cast<uint64_t>(i);
        ids.push_back(engine.Submit(std::move(request)));
      }
      while (engine.Step()) most[together] = std::max(most[together], engine.stats().used_blocks);
      for (const int64_t id : ids) {
        GenerateResult result = engine.Take(id).value();
        said[together].push_back(result.tokens);
        for (const GeneratedAnswer& other : result.others) said[together].push_back(other.tokens);
      }
    }
    const auto equal = std::ranges::mismatch(said[0], said[1]).in1 - said[0].begin();
    Add("8 answers of " + std::to_string(tokens) + " tokens to a prompt of " +
            std::to_string(prompt.size()) + ": blocks / those of 8 requests",
        static_cast<double>(most[1]) / static_cast<double>(most[0]), "", "at most 0.55");
    Add("the same: answers with the tokens of their lone request", static_cast<double>(equal), "",
        "8");
  }

  void Add(std::string what, double value, std::string unit, std::string goal) {
    figures_.push_back({std::move(what), value, std::move(unit), std::move(goal)});
  }

  std::shared_ptr<const LanguageModel> model_;
  int threads_;
  bool small_, processor_time_;
  std::mt19937_64 random_{1};
  std::vector<Figure> figures_;
};

int Main(int argc, char** argv) {
  std::string path, machine = "?", commit = "?", date = "?", threads = "0";
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--small") {
      settings.small = true;
    } else if (word == "--processor-time") {
      settings.processor_time = true;
    } else if (word.starts_with("--") && i + 1 < argc) {
      std::string& value = word == "--machine"   ? machine
                           : word == "--commit"  ? commit
                           : word == "--threads" ? threads
                           : word == "--only"    ? settings.only
                                                 : date;
      value = argv[++i];
    } else {
      path = word;
    }
  }
  const auto model = path.empty() ? LanguageModel::Random("smollm2-135m", "int4", 32, {})
                                  : LanguageModel::Load(path);
  settings.threads = std::stoi(threads);
  const std::vector<Figure> figures = RequestsBench(model, settings).Run(settings.only);
  std::cout << "{\n \"about\": {\n  \"machine\": \"" << machine << "\",\n  \"date\": \"" << date
            << "\",\n  \"commit\": \"" << commit << "\",\n  \"model\": \""
            << (path.empty() ? "the shape of SmolLM2-135M, random weights of 4 bits" : path)
            << "\",\n  \"command\": \"bench_requests\"\n },\n \"columns\": [\n"
            << "  {\"key\": \"what\", \"title\": \"what\"},\n"
            << "  {\"key\": \"value\", \"title\": \"measured\"},\n"
            << "  {\"key\": \"goal\", \"title\": \"goal\"}\n ],\n \"rows\": [";
  std::cout.precision(3);
  const char* separator = "\n";
  for (const Figure& figure : figures) {
    std::cout << separator << "  {\"what\": \"" << figure.what << "\", \"value\": \""
              << figure.value << (figure.unit.empty() ? "" : " ") << figure.unit
              << "\", \"goal\": \"" << figure.goal << "\"}";
    separator = ",\n";
  }
  std::cout << "\n ]\n}\n";
  return 0;
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) { return oort::bench::Main(argc, argv); }
