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

/// `counts` has one more than `bounds`.
void AppendHistogram(std::string& text, std::string_view name, std::string_view labels,
                     const auto& bounds, const auto& counts, double sum) {
  int64_t count = 0;
  const std::string begin = std::string(name) + "_bucket{" + std::string(labels) + ",le=\"";
  for (size_t i = 0; i <= std::size(bounds); ++i) {
    count += counts[i];
    const std::string bound =
        i < std::size(bounds) ? NumberText(static_cast<double>(bounds[i])) : "+Inf";
    text += begin + bound + "\"} " + std::to_string(count) + '\n';
  }
  const std::string end = '{' + std::string(labels) + "} ";
  text += std::string(name) + "_sum" + end + NumberText(sum) + '\n';
  text += std::string(name) + "_count" + end + std::to_string(count) + '\n';
}

class MetricsPage {
 public:
  explicit MetricsPage(std::span<const MeasuredModel> models) : models_(models) {
    for (const MeasuredModel& model : models) {
      labels_.push_back("model_name=\"" + Escaped(model.name) + "\",engine=\"0\"");
    }
  }

  /// `value_of` gives the value of a model.
  template <typename ValueOf>
  void Gauge(std::string_view name, std::string_view help, const ValueOf& value_of) {
    Each(name, "gauge", help, [&](const std::string& full, size_t i) {
      Line(full, labels_[i], static_cast<double>(value_of(models_[i])));
    });
  }
  template <typename ValueOf>
  void Counter(std::string_view name, std::string_view help, const ValueOf& value_of) {
    Each(name, "counter", help, [&](const std::string& full, size_t i) {
      Line(full, labels_[i], static_cast<double>(value_of(models_[i])));
    });
  }
  /// Several counters of one name, told apart by a label.
  template <typename ValuesOf>
  void Counters(std::string_view name, std::string_view help, std::string_view label,
                const ValuesOf& values_of) {
    Each(name, "counter", help, [&](const std::string& full, size_t i) {
      for (const auto& [word, value] : values_of(models_[i])) {
        Line(full, labels_[i] + ',' + std::string(label) + "=\"" + std::string(word) + '"',
             static_cast<double>(value));
      }
    });
  }
  void AddStepSizes(std::string_view name, std::string_view help) {
    Each(name, "histogram", help, [&](const std::string& full, size_t i) {
      const StepSizes& sizes = models_[i].stats.step_sizes;
      AppendHistogram(text_, full, labels_[i], StepSizes::kMost, sizes.steps,
                      static_cast<double>(sizes.tokens));
    });
  }
  void Add(std::string_view name, std::string_view help, Histogram Metrics::*histogram) {
    Each(name, "histogram", help, [&](const std::string& full, size_t i) {
      (models_[i].metrics->*histogram).Append(text_, full, labels_[i]);
    });
  }
  /// Of the server, not of a model.
  void OfServer(std::string_view name, std::string_view type, std::string_view help, double value) {
    Each(name, type, help, [&](const std::string& full, size_t i) {
      if (i == 0) Line(full, labels_[i], value);
    });
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
      for (size_t i = 0; i < models_.size(); ++i) write(full, i);
    }
  }
  void Line(const std::string& name, const std::string& labels, double value) {
    text_ += name + '{' + labels + "} " + NumberText(value) + '\n';
  }

  std::span<const MeasuredModel> models_;
  std::vector<std::string> labels_;
  std::string text_;
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
  AppendHistogram(text, name, labels, bounds_, counts_, sum_);
}

Metrics::Metrics(int64_t context)
    : first_token(Seconds()),
      between_tokens(Seconds()),
      per_token(Seconds()),
      end_to_end(Seconds()),
      queue(Seconds()),
      prefill(Seconds()),
      decode(Seconds()),
      inference(Seconds()),
      prompt_tokens(Counts(context)),
      generated_tokens(Counts(context)),
      longest_answer(Counts(context)),
      most_tokens(Counts(context)),
      choices({1, 2, 5, 10, 20, 50}) {}

void Metrics::AddRefused(int status) {
  ++(status == kAskerLeft ? left
     : status == 429      ? rejected_full
     : status < 500       ? rejected_invalid
                          : failed);
}

void Metrics::Add(const GenerateRequest& request, const GeneratedAnswer& answer, double seconds) {
  const GenerateTimings& timings = answer.timings;
  const auto tokens = static_cast<int64_t>(answer.tokens.size());
  ++finished[static_cast<size_t>(answer.finish)];
  end_to_end.Observe(seconds);
  prompt_tokens.Observe(static_cast<double>(request.prompt.size()));
  generated_tokens.Observe(static_cast<double>(tokens));
  if (request.max_tokens >= 0) most_tokens.Observe(static_cast<double>(request.max_tokens));
  if (tokens == 0) return;
  first_token.Observe(timings.first_token_seconds);
  const auto between = [](auto begin, auto end) {
    return std::chrono::duration<double>(end - begin).count();
  };
  queue.Observe(between(timings.arrived, timings.started));
  prefill.Observe(between(timings.started, timings.first_token));
  inference.Observe(between(timings.started, timings.finished));
  decode.Observe(timings.generate_seconds);
  if (tokens > 1) per_token.Observe(timings.generate_seconds / static_cast<double>(tokens - 1));
}

void Metrics::Retire(const EngineStats& stats) {
  const EngineStats total = Total(stats);
  const std::lock_guard lock(mutex_);
  retired_.steps = total.steps;
  retired_.prompt_tokens = total.prompt_tokens;
  retired_.reused_tokens = total.reused_tokens;
  retired_.generated_tokens = total.generated_tokens;
  retired_.preemptions = total.preemptions;
  retired_.draft = total.draft;
  retired_.step_sizes = total.step_sizes;
}

EngineStats Metrics::Total(EngineStats running) const {
  const std::lock_guard lock(mutex_);
  running.steps += retired_.steps;
  running.prompt_tokens += retired_.prompt_tokens;
  running.reused_tokens += retired_.reused_tokens;
  running.generated_tokens += retired_.generated_tokens;
  running.preemptions += retired_.preemptions;
  running.draft += retired_.draft;
  running.step_sizes += retired_.step_sizes;
  return running;
}

namespace {

/// Guesses of what answers say next.
void AddDraftCounters(MetricsPage& page) {
  using Model = const MeasuredModel&;
  const auto of = [](int64_t DraftCounts::*value) {
    return [value](Model model) { return model.stats.draft.*value; };
  };
  page.Counter("spec_decode_num_drafts_total", "Steps of an answer that checked guesses",
               of(&DraftCounts::steps));
  page.Counter("spec_decode_num_draft_tokens_total", "Tokens that were guessed and checked",
               of(&DraftCounts::drafted));
  page.Counter("spec_decode_num_accepted_tokens_total", "Of these, the ones that were right",
               of(&DraftCounts::accepted));
  page.Counters("spec_decode_num_accepted_tokens_per_pos_total",
                "The same by their place behind the last token", "position", [](Model model) {
                  std::vector<std::pair<std::string, int64_t>> places;
                  for (const int64_t accepted : model.stats.draft.accepted_at) {
                    places.emplace_back(std::to_string(places.size()), accepted);
                  }
                  return places;
                });
}

}  // namespace

std::string MetricsText(std::span<const MeasuredModel> models, const MeasuredServer& server) {
  MetricsPage page(models);
  using Model = const MeasuredModel&;
  using Words = std::vector<std::pair<std::string_view, int64_t>>;
  const auto of = [](int64_t EngineStats::*value) {
    return [value](Model model) { return model.stats.*value; };
  };
  page.Gauge("num_requests_running", "Requests that are computed", of(&EngineStats::running));
  page.Gauge("num_requests_waiting", "Requests that wait", of(&EngineStats::waiting));
  page.Gauge("num_requests_swapped", "Of these, ones whose part of the cache other memory keeps",
             of(&EngineStats::swapped));
  // vLLM's older dashboards ask for the second name.
  for (const std::string_view name : {"kv_cache_usage_perc", "gpu_cache_usage_perc"}) {
    page.Gauge(name, "Share of the cache that running requests hold, 1 is all", [](Model model) {
      return static_cast<double>(model.stats.used_blocks) /
             static_cast<double>(std::max<int64_t>(1, model.stats.blocks));
    });
  }
  page.Counter("prompt_tokens_total", "Tokens of prompts", of(&EngineStats::prompt_tokens));
  page.Counter("generation_tokens_total", "Tokens of answers", of(&EngineStats::generated_tokens));
  page.Counter("prefix_cache_queries_total", "Tokens that were looked for in the cache",
               of(&EngineStats::prompt_tokens));
  page.Counter("prefix_cache_hits_total", "Tokens that were found in the cache",
               of(&EngineStats::reused_tokens));
  page.Counter("num_preemptions_total", "Times that a request gave way",
               of(&EngineStats::preemptions));
  AddDraftCounters(page);
  page.Counters("request_success_total", "Requests that came to an end", "finished_reason",
                [](Model model) {
                  const auto ended = [&](FinishReason reason) {
                    return model.metrics->finished[static_cast<size_t>(reason)].load();
                  };
                  return Words{{"stop", ended(FinishReason::kStop)},
                               {"length", ended(FinishReason::kLength)},
                               {"abort", ended(FinishReason::kCancelled) + model.metrics->left},
                               {"deadline", ended(FinishReason::kDeadline)}};
                });
  page.Counters("request_rejected_total", "Requests that were not computed", "reason",
                [](Model model) {
                  return Words{{"queue_full", model.metrics->rejected_full},
                               {"invalid", model.metrics->rejected_invalid},
                               {"failed", model.metrics->failed}};
                });
  page.Add("time_to_first_token_seconds", "From the request to its first token",
           &Metrics::first_token);
  // Here, too.
  for (const std::string_view name :
       {"inter_token_latency_seconds", "time_per_output_token_seconds"}) {
    page.Add(name, "Between two tokens of a stream", &Metrics::between_tokens);
  }
  page.Add("request_time_per_output_token_seconds", "Mean of a request", &Metrics::per_token);
  page.Add("e2e_request_latency_seconds", "From the request to its end", &Metrics::end_to_end);
  page.Add("request_queue_time_seconds", "Before the first step", &Metrics::queue);
  page.Add("request_prefill_time_seconds", "From the first step to the first token",
           &Metrics::prefill);
  page.Add("request_decode_time_seconds", "From the first token to the last", &Metrics::decode);
  page.Add("request_inference_time_seconds", "From the first step to the last token",
           &Metrics::inference);
  page.Add("request_prompt_tokens", "Tokens of a prompt", &Metrics::prompt_tokens);
  page.Add("request_generation_tokens", "Tokens of an answer", &Metrics::generated_tokens);
  page.Add("request_max_num_generation_tokens", "Tokens of a request's longest answer",
           &Metrics::longest_answer);
  page.Add("request_params_max_tokens", "Tokens that were asked for", &Metrics::most_tokens);
  page.Add("request_params_n", "Choices that were asked for", &Metrics::choices);
  page.Gauge("blocks_total", "Blocks of the cache", of(&EngineStats::blocks));
  page.Gauge("blocks_used", "Blocks of running requests", of(&EngineStats::used_blocks));
  page.Gauge("blocks_cached", "Blocks that hold beginnings of prompts",
             of(&EngineStats::cached_blocks));
  page.Counter("steps_total", "Steps of the engine", of(&EngineStats::steps));
  page.AddStepSizes("iteration_tokens_total", "Tokens of a step, of prompts and of answers");
  page.OfServer("connections", "gauge", "Open connections", server.connections);
  page.OfServer("log_lines_dropped_total", "counter", "Lines of the log that nobody took in time",
                static_cast<double>(server.dropped_lines));
  return page.Take();
}

}  // namespace oort::serve
