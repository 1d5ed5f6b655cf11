// SPDX-License-Identifier: MIT
#include "cli/bench_serve.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>

#include "cli/command.h"

namespace oort::cli {
namespace {

constexpr size_t kMostOpen = 4096;  // requests under way; in an open loop others wait
constexpr size_t kMostRequests = 10'000'000;

struct BenchServeArguments {
  std::string url, model, key_file, prompts, svg;
  std::vector<int64_t> clients;
  std::vector<double> rates;
  int64_t requests = 0, prompt_tokens = 128, new_tokens = 128, warm_up = -1;
  double seconds = 0, timeout = 600;
  uint64_t seed = 1;
  double most_ttft = 0, most_tpot = 0, most_e2e = 0;  ///< in milliseconds
  bool chat = false, natural_end = false, json = false;
};

// NOLINTNEXTLINE(bugprone-exception-escape): a moved Json throws nothing, but does not say so.
struct Prompt {
  Json content;
  int64_t new_tokens = 0;
};

/// One prompt a line: text, or a JSON object with "prompt" (text or token ids) or "messages", and
/// "max_tokens" where it is to differ.
std::vector<Prompt> ReadPrompts(const BenchServeArguments& options) {
  std::ifstream file(options.prompts);
  if (!file) throw Error(ErrorCode::kIo, "cannot read the prompts in " + options.prompts);
  std::vector<Prompt> prompts;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    Prompt prompt{line, options.new_tokens};
    if (line.starts_with('{')) {
      const Json json = Json::parse(line, nullptr, false);
      const char* const name = options.chat && json.contains("messages") ? "messages" : "prompt";
      if (!json.is_object() || !json.contains(name)) {
        throw Error(ErrorCode::kInvalidArgument,
                    options.prompts + " line " + std::to_string(number) +
                        " is no JSON with \"prompt\"" + (options.chat ? " or \"messages\"" : ""));
      }
      prompt.content = json[name];
      const auto most = json.find("max_tokens");
      if (most != json.end() && most->is_number_integer()) prompt.new_tokens = most->get<int64_t>();
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    throw Error(ErrorCode::kInvalidArgument, options.prompts + " holds no prompt: one a line");
  }
  return prompts;
}

/// No two prompts begin alike, so that no cache helps. These ids are ordinary tokens in every
/// vocabulary: special ones come before, and the smallest have 256.
Json RandomPrompt(const BenchServeArguments& options, std::mt19937_64& random) {
  if (!options.chat) {
    Json ids = Json::array();
    for (int64_t i = 0; i < options.prompt_tokens; ++i) ids.push_back(32 + random() % 224);
    return ids;
  }
  // Words of a conversation: about a token each.
  static constexpr std::array kWords = {"the", "a",    "sun",  "river", "fox",   "house", "tree",
                                        "and", "or",   "with", "over",  "under", "sees",  "goes",
                                        "big", "blue", "old",  "new",   "two",   "day"};
  std::string text;
  for (int64_t i = 0; i < options.prompt_tokens; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random() % kWords.size()];
  }
  return text;
}

class Load {
 public:
  explicit Load(const BenchServeArguments& options)
      : options_(options), url_(ServerUrl::Parse(options.url)) {
    if (!options.key_file.empty()) ReadKey();
    if (!options.prompts.empty()) prompts_ = ReadPrompts(options);
    model_ = options.model.empty() ? AskModel() : options.model;
  }

  const std::string& model() const { return model_; }

  /// `rate` 0: so many clients, each of which asks again when it is answered.
  LoadReport Run(int64_t clients, double rate) {
    LoadPlan plan;
    plan.url = url_;
    plan.most_seconds = options_.timeout;
    plan.text = [this](size_t i) { return Text(i); };
    WarmUp(plan, clients);
    plan.seconds = options_.seconds;
    plan.requests = static_cast<size_t>(options_.requests);
    if (options_.requests == 0) {
      plan.requests = options_.seconds > 0 ? kMostRequests
                                           : std::max<size_t>(16, 4 * static_cast<size_t>(clients));
    }
    plan.most_open = rate > 0 ? kMostOpen : static_cast<size_t>(clients);
    if (rate > 0) {
      if (options_.requests == 0) plan.requests = options_.seconds > 0 ? Arrivals(rate) : 64;
      std::mt19937_64 random(options_.seed);
      std::exponential_distribution<double> pause(rate);
      double time = 0;
      for (size_t i = 0; i < plan.requests; ++i) plan.due.push_back(time += pause(random));
    }
    const LatencyLimits limits = Limits();
    LoadReport report = Summarize(RunLoad(plan), limits);
    first_ += plan.requests;
    report.load = rate > 0 ? rate : static_cast<double>(clients);
    report.name = rate > 0 ? FormatNumber(rate) + " requests/s"
                           : std::to_string(clients) + (clients == 1 ? " client" : " clients");
    return report;
  }

  LatencyLimits Limits() const {
    return {options_.most_ttft / 1e3, options_.most_tpot / 1e3, options_.most_e2e / 1e3};
  }

 private:
  void ReadKey() {
    std::ifstream file(options_.key_file);
    while (std::getline(file, key_)) {
      while (!key_.empty() && (key_.back() == '\r' || key_.back() == ' ')) key_.pop_back();
      if (!key_.empty() && !key_.starts_with('#')) return;
    }
    throw Error(ErrorCode::kInvalidArgument, options_.key_file + " holds no API key: one a line");
  }

  /// Enough for the whole time; what comes later is not sent.
  size_t Arrivals(double rate) const {
    const double expected = rate * options_.seconds;
    return static_cast<size_t>(std::min(expected * 2 + 64, static_cast<double>(kMostRequests)));
  }

  std::string AskModel() {
    LoadPlan plan;
    plan.url = url_;
    plan.most_seconds = options_.timeout;
    plan.text = [this](size_t) { return RequestText(url_, "/v1/models", key_, ""); };
    const LoadResult result = RunLoad(plan).at(0);
    if (result.status == 401) {
      throw Error(ErrorCode::kInvalidArgument,
                  url_.ToString() + " wants an API key: give --api-key-file FILE");
    }
    if (!result.ok()) throw Unreachable(result);
    const Json json = Json::parse(result.body, nullptr, false);
    if (json.is_object() && json.contains("data") && json["data"].is_array() &&
        !json["data"].empty() && json["data"][0].is_object() && json["data"][0].contains("id") &&
        json["data"][0]["id"].is_string()) {
      return json["data"][0]["id"].get<std::string>();
    }
    throw Error(ErrorCode::kInvalidArgument,
                url_.ToString() + "/v1/models names no model: give --model NAME");
  }

  Error Unreachable(const LoadResult& result) const {
    const char* const advice =
        result.status == 0 ? ": start a server there (oort serve MODEL), or correct the address"
                           : ": is this a server of OpenAI's API?";
    return {ErrorCode::kIo, url_.ToString() + ": " + result.error + advice};
  }

  /// Memory is touched, plans are made; a load that cannot work ends here.
  void WarmUp(LoadPlan plan, int64_t clients) {
    const int64_t count =
        options_.warm_up >= 0 ? options_.warm_up : std::clamp<int64_t>(clients, 1, 64);
    if (count == 0) return;
    plan.requests = plan.most_open = static_cast<size_t>(count);
    const std::vector<LoadResult> results = RunLoad(plan);
    first_ += plan.requests;
    const bool none = std::ranges::none_of(results, &LoadResult::ok);
    if (none)
      throw Error(ErrorCode::kIo, url_.ToString() + ": every request failed: " + results[0].error);
  }

  std::string Text(size_t i) {
    const size_t number = first_ + i;
    // Of the number and the seed alone: the same run asks the same.
    std::seed_seq seeds{options_.seed, static_cast<uint64_t>(number)};
    std::mt19937_64 random(seeds);
    Prompt prompt;
    if (prompts_.empty()) {
      prompt = {RandomPrompt(options_, random), options_.new_tokens};
    } else {
      prompt = prompts_[number % prompts_.size()];
    }
    Json body = {
        {"model", model_}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
    body["max_tokens"] = prompt.new_tokens;
    body["temperature"] = 0;
    if (!options_.natural_end) body["ignore_eos"] = true;
    if (!options_.chat) {
      body["prompt"] = prompt.content;
    } else if (prompt.content.is_array()) {
      body["messages"] = prompt.content;
    } else {
      body["messages"] = Json::array({{{"role", "user"}, {"content", prompt.content}}});
    }
    const char* const path = options_.chat ? "/v1/chat/completions" : "/v1/completions";
    return RequestText(url_, path, key_, body.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  const BenchServeArguments& options_;
  const ServerUrl url_;
  std::string key_, model_;
  std::vector<Prompt> prompts_;
  size_t first_ = 0;  ///< the number of the next request, over all loads
};

void AllowManyConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 2 * kMostOpen);
  setrlimit(RLIMIT_NOFILE, &limit);
}

int BenchServe(const BenchServeArguments& options) {
  if (!options.rates.empty() && !options.clients.empty()) {
    throw UsageError(
        "--rate sends whether answers come or not, --concurrency waits for them: "
        "give one of the two");
  }
  AllowManyConnections();
  Load load(options);
  const LatencyLimits limits = load.Limits();
  std::vector<LoadReport> reports;
  const auto add = [&](int64_t clients, double rate) {
    reports.push_back(load.Run(clients, rate));
    if (!options.json) PrintReport(std::cout, reports.back(), limits);
    std::cout.flush();
  };
  for (const double rate : options.rates) add(1, rate);
  for (const int64_t clients : options.clients) add(clients, 0);
  if (reports.empty()) add(1, 0);
  if (!options.svg.empty()) {
    WriteTextFile(options.svg, DrawReports(reports, load.model() + " at " + options.url));
  }
  const bool answered = std::ranges::all_of(reports, [](const auto& r) { return r.requests > 0; });
  if (options.json) {
    Json json = {{"url", options.url}, {"model", load.model()}, {"loads", Json::array()}};
    for (LoadReport& report : reports) json["loads"].push_back(ToJson(report, limits));
    Print(std::cout, json);
  } else {
    const LoadReport& last = reports.back();
    std::cout << "tokens_per_second " << FormatFixed(last.TokenRate(), 1) << " requests_per_second "
              << FormatFixed(last.RequestRate(), 2) << " failed " << last.Failed() << '\n';
  }
  if (!answered) throw Error(ErrorCode::kIo, "of one load every request failed");
  return 0;
}

}  // namespace

Action AddBenchServe(CLI::App& app) {
  auto options = std::make_shared<BenchServeArguments>();
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 30);
  app.add_option("URL", options->url, "Address of the server: http://127.0.0.1:8080")->required();
  app.add_option("--model", options->model, "Model to ask (default: the first that it names)");
  app.add_option("--api-key-file", options->key_file, "A file whose first key is used")
      ->check(CLI::ExistingFile);
  app.add_option("--concurrency", options->clients,
                 "Closed loop: clients that each ask again when they are answered: 8, or 1,8,64")
      ->delimiter(',')
      ->type_name("N,…")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rate", options->rates,
                 "Open loop: requests a second at random moments (Poisson): 2.5, or 1,2,4")
      ->delimiter(',')
      ->type_name("R,…")
      ->check(CLI::Range(1e-3, 1e6));
  app.add_option("--requests", options->requests, "Requests of each load (default: 4 of a client)")
      ->check(CLI::Range(int64_t{1}, static_cast<int64_t>(kMostRequests)));
  app.add_option("--seconds", options->seconds, "Send no later than this")
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--prompt-tokens", options->prompt_tokens,
                 "Length of random prompts; with --chat in words")
      ->capture_default_str()
      ->check(positive);
  app.add_option("--new-tokens", options->new_tokens, "Length of the answers")
      ->capture_default_str()
      ->check(positive);
  app.add_option(
         "--prompts", options->prompts,
         "A file of prompts, one a line: text, or JSON with \"prompt\" or \"messages\", and "
         "\"max_tokens\"")
      ->check(CLI::ExistingFile);
  app.add_flag("--chat", options->chat, "Ask /v1/chat/completions (default: /v1/completions)");
  app.add_flag("--natural-end", options->natural_end,
               "Answers may end by themselves (default: ignore_eos, all are equally long)");
  app.add_option("--warm-up", options->warm_up,
                 "Requests before those that count (default: one for each client, 64 at most)")
      ->check(CLI::Range(int64_t{0}, int64_t{4096}));
  app.add_option("--seed", options->seed, "Of prompts and arrivals")->capture_default_str();
  app.add_option("--timeout", options->timeout, "Seconds for one request")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--most-ttft", options->most_ttft,
                 "Goodput: milliseconds to the first token at most");
  app.add_option("--most-tpot", options->most_tpot,
                 "Goodput: milliseconds for each further token at most, on average of a request");
  app.add_option("--most-e2e", options->most_e2e, "Goodput: milliseconds of a request at most");
  app.add_option("--svg", options->svg, "Draw latencies and throughput to this file");
  app.add_flag("--json", options->json, "Print all figures as JSON");
  app.footer(
      "Example: oort bench-serve http://127.0.0.1:8080 --concurrency 1,8 --svg load.svg\n"
      "The last line is: tokens_per_second X requests_per_second Y failed N, of the last load.\n"
      "Times of an open loop begin when a request was due, not when it could be sent.");
  return [options] { return BenchServe(*options); };
}

}  // namespace oort::cli
