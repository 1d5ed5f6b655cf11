// SPDX-License-Identifier: MIT
#include "serve/metrics.h"

#include <algorithm>
#include <charconv>

namespace oort::serve {
namespace {

/// The two families of names for the same numbers.
constexpr std::array<std::string_view, 2> kPrefixes = {"oort:", "vllm:"};

std::vector<double> Seconds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,      1.5,   2,      2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}

/// 1, 2, 5, 10 … up to the context.
std::vector<double> Counts(int64_t most) {
  std::vector<double> bounds;
  for (int64_t ten = 1; ten <= most; ten *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (ten * factor <= most) bounds.push_back(static_cast<double>(ten * factor));
    }
  }
  return bounds;
}

std::string NumberText(double value) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

/// A label's value: quotes, backslashes and line ends must not end it.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

class MetricsText {
 public:
  explicit MetricsText(std::string_view model)
      : labels_("model_name=\"" + Escaped(model) + "\",engine=\"0\"") {}

  void Gauge(std::string_view name, std::string_view help, double value) {
    Each(name, "gauge", help, [&](const std::string& full) { Line(full, "", value); });
  }
  void Counter(std::string_view name, std::string_view help, int64_t value) {
    Each(name, "counter", help,
         [&](const std::string& full) { Line(full, "", static_cast<double>(value)); });
  }
  template <size_t n>
  void Counters(std::string_view name, std::string_view help, std::string_view label,
                const std::array<std::pair<std::string_view, int64_t>, n>& values) {
    Each(name, "counter", help, [&](const std::string& full) {
      for (const auto& [word, value] : values) {
        Line(full, "," + std::string(label) + "=\"" + std::string(word) + '"',
             static_cast<double>(value));
      }
    });
  }
  void Add(std::string_view name, std::string_view help, const Histogram& histogram) {
    Each(name, "histogram", help,
         [&](const std::string& full) { histogram.Append(text_, full, labels_); });
  }
  std::string Take() { return std::move(text_); }

 private:
  template <typename Write>
  void Each(std::string_view name, std::string_view type, std::string_view help,
            const Write& write) {
    for (const std::string_view prefix : kPrefixes) {
      const std::string full = std::string(prefix) + std::string(name);
      text_ += "# HELP " + full + ' ' + std::string(help) + "\n# TYPE " + full + ' ' +
               std::string(type) + '\n';
      write(full);
    }
  }
  void Line(const std::string& name, const std::string& more, double value) {
    text_ += name + '{' + labels_ + more + "} " + NumberText(value) + '\n';
  }

  std::string labels_, text_;
};

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      counts_(std::make_unique<std::atomic<int64_t>[]>(bounds_.size() + 1)) {}

void Histogram::Observe(double value, int64_t times) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)] += times;
  double sum = sum_;
  while (!sum_.compare_exchange_weak(sum, sum + value * static_cast<double>(times))) {
  }
}

void Histogram::Append(std::string& text, std::string_view name, std::string_view labels) const {
  int64_t count = 0;
  const std::string begin = std::string(name) + "_bucket{" + std::string(labels) + ",le=\"";
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? NumberText(bounds_[i]) : "+Inf";
    text += begin + bound + "\"} " + std::to_string(count) + '\n';
  }
  const std::string end = '{' + std::string(labels) + "} ";
  text += std::string(name) + "_sum" + end + NumberText(sum_) + '\n';
  text += std::string(name) + "_count" + end + std::to_string(count) + '\n';
}

Metrics::Metrics(int64_t context)
    : first_token(Seconds()),
      between_tokens(Seconds()),
      per_token(Seconds()),
      end_to_end(Seconds()),
      queue(Seconds()),
      prefill(Seconds()),
      decode(Seconds()),
      prompt_tokens(Counts(context)),
      generated_tokens(Counts(context)),
      most_tokens(Counts(context)),
      choices({1, 2, 5, 10, 20, 50}) {}

void Metrics::Add(const GenerateRequest& request, const GenerateResult& result, double seconds) {
  const GenerateTimings& timings = result.timings;
  const auto tokens = static_cast<int64_t>(result.tokens.size());
  ++finished[static_cast<size_t>(result.finish)];
  end_to_end.Observe(seconds);
  prompt_tokens.Observe(static_cast<double>(request.prompt.size()));
  generated_tokens.Observe(static_cast<double>(tokens));
  if (request.max_tokens >= 0) most_tokens.Observe(static_cast<double>(request.max_tokens));
  if (tokens == 0) return;
  first_token.Observe(timings.first_token_seconds);
  prefill.Observe(timings.prompt_seconds);
  queue.Observe(std::max(0.0, timings.first_token_seconds - timings.prompt_seconds));
  decode.Observe(timings.generate_seconds);
  if (tokens > 1) per_token.Observe(timings.generate_seconds / static_cast<double>(tokens - 1));
}

std::string Metrics::Text(const EngineStats& stats, std::string_view model, int connections) const {
  MetricsText page(model);
  const double blocks = static_cast<double>(std::max<int64_t>(1, stats.blocks));
  page.Gauge("num_requests_running", "Requests that are computed",
             static_cast<double>(stats.running));
  page.Gauge("num_requests_waiting", "Requests that wait", static_cast<double>(stats.waiting));
  page.Gauge("kv_cache_usage_perc", "Share of the cache that running requests hold, 1 is all",
             static_cast<double>(stats.used_blocks) / blocks);
  page.Counter("prompt_tokens_total", "Tokens of prompts", stats.prompt_tokens);
  page.Counter("generation_tokens_total", "Tokens of answers", stats.generated_tokens);
  page.Counter("prefix_cache_queries_total", "Tokens that were looked for in the cache",
               stats.prompt_tokens);
  page.Counter("prefix_cache_hits_total", "Tokens that were found in the cache",
               stats.reused_tokens);
  page.Counter("num_preemptions_total", "Times that a request gave way", stats.preemptions);
  const auto reason = [&](FinishReason of) { return finished[static_cast<size_t>(of)].load(); };
  page.Counters("request_success_total", "Requests that came to an end", "finished_reason",
                std::array<std::pair<std::string_view, int64_t>, 4>{
                    {{"stop", reason(FinishReason::kStop)},
                     {"length", reason(FinishReason::kLength)},
                     {"abort", reason(FinishReason::kCancelled) + left},
                     {"deadline", reason(FinishReason::kDeadline)}}});
  page.Counters(
      "request_rejected_total", "Requests that were not computed", "reason",
      std::array<std::pair<std::string_view, int64_t>, 3>{
          {{"queue_full", rejected_full}, {"invalid", rejected_invalid}, {"failed", failed}}});
  page.Add("time_to_first_token_seconds", "From the request to its first token", first_token);
  page.Add("inter_token_latency_seconds", "Between two tokens of a stream", between_tokens);
  page.Add("request_time_per_output_token_seconds", "Mean of a request", per_token);
  page.Add("e2e_request_latency_seconds", "From the request to its end", end_to_end);
  page.Add("request_queue_time_seconds", "Before the prompt was read", queue);
  page.Add("request_prefill_time_seconds", "Of steps that read the prompt", prefill);
  page.Add("request_decode_time_seconds", "From the first token to the last", decode);
  page.Add("request_prompt_tokens", "Tokens of a prompt", prompt_tokens);
  page.Add("request_generation_tokens", "Tokens of an answer", generated_tokens);
  page.Add("request_max_num_generation_tokens", "Tokens that were asked for", most_tokens);
  page.Add("request_params_n", "Choices that were asked for", choices);
  page.Gauge("blocks_total", "Blocks of the cache", static_cast<double>(stats.blocks));
  page.Gauge("blocks_used", "Blocks of running requests", static_cast<double>(stats.used_blocks));
  page.Gauge("blocks_cached", "Blocks that hold beginnings of prompts",
             static_cast<double>(stats.cached_blocks));
  page.Counter("steps_total", "Steps of the engine", stats.steps);
  page.Gauge("connections", "Open connections", connections);
  return page.Take();
}

}  // namespace oort::serve
