// SPDX-License-Identifier: MIT
// What the server counts, as Prometheus reads it, under the names that vLLM's dashboards ask for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/engine.h"

namespace oort::serve {

/// Values by their size. Thread contract: any number of threads.
class Histogram {
 public:
  /// The upper bounds of its buckets, smallest first; the last bucket has none.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value, int64_t times = 1);
  void Append(std::string& text, std::string_view name, std::string_view labels) const;

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<int64_t>[]> counts_;  ///< one more than bounds
  std::atomic<double> sum_ = 0;
};

/// The status, which nobody sees, of a request whose asker has left.
constexpr int kAskerLeft = 499;

/// Thread contract: any number of threads.
struct Metrics {
  explicit Metrics(int64_t context);

  // Of the engine's requests that came to an end.
  Histogram first_token, between_tokens, per_token, end_to_end, queue, prefill, decode;
  Histogram inference, prompt_tokens, generated_tokens, longest_answer, most_tokens, choices;
  std::array<std::atomic<int64_t>, 4> finished = {};  ///< by FinishReason
  std::atomic<int64_t> failed = 0;                    ///< of the engine
  std::atomic<int64_t> rejected_full = 0;             ///< of the server: the queue was full
  std::atomic<int64_t> rejected_invalid = 0;
  std::atomic<int64_t> left = 0;  ///< whose asker left before the end

  /// Adds a request that was refused with this status, before anything was computed for it.
  void AddRefused(int status);
  /// Adds an answer that came to its own end.
  void Add(const GenerateRequest& request, const GeneratedAnswer& answer, double seconds);
  /// Keeps what an engine of this model has counted, before it goes.
  void Retire(const EngineStats& stats);
  /// What all engines of this model have counted, of which one may run.
  EngineStats Total(EngineStats running) const;

 private:
  mutable std::mutex mutex_;
  EngineStats retired_;  ///< counters alone
};

/// One model's part of what is shown.
struct MeasuredModel {
  std::string name;
  const Metrics* metrics = nullptr;
  EngineStats stats = {};
};
/// What is shown of the server itself.
struct MeasuredServer {
  int connections = 0;
  int64_t dropped_lines = 0;
};
std::string MetricsText(std::span<const MeasuredModel> models, const MeasuredServer& server);

}  // namespace oort::serve
