// SPDX-License-Identifier: MIT
// An encoder or a reranker on a thread of its own: texts of requests that wait together are read
// together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "oort/embedder.h"
#include "oort/reranker.h"
#include "serve/metrics.h"

namespace oort::serve {

/// Thread contract: any number of threads.
class EncoderLoop {
 public:
  /// One of both: vectors or scores, one behind the other, or what went wrong.
  using Then = std::function<void(std::vector<float>, std::exception_ptr)>;
  /// Whether somebody still waits for it.
  using Wanted = std::function<bool()>;

  /// `aliases`: other names that requests may use. At most `most_tokens` wait.
  EncoderLoop(std::variant<Embedder, Reranker> model, std::string name,
              std::vector<std::string> aliases = {}, int64_t most_tokens = 1 << 20);
  /// What waits is told kCancelled.
  ~EncoderLoop();
  EncoderLoop(const EncoderLoop&) = delete;
  EncoderLoop& operator=(const EncoderLoop&) = delete;

  /// Calls `then` on the loop's thread. Throws kLimit where too much waits already. What an
  /// embedder reads has no types.
  void Submit(std::vector<TokenPair> texts, Wanted wanted, Then then);

  /// Returns when all that was submitted before is answered, and what it held is let go of: a
  /// server that shares the loop may then end.
  void Finish();

  /// Its tokens and sizes only: the rest is the loop's. The loop must have been made of one.
  const Embedder& embedder() const { return std::get<Embedder>(model_); }
  const Reranker& reranker() const { return std::get<Reranker>(model_); }
  int64_t max_tokens() const;
  const std::string& name() const { return name_; }
  const std::vector<std::string>& aliases() const { return aliases_; }
  Metrics& metrics() { return metrics_; }
  /// What runs, what waits, and the tokens that were read; an encoder has no more.
  EngineStats stats() const;

 private:
  struct Job {
    std::vector<TokenPair> texts;
    int64_t tokens = 0;
    Wanted wanted;
    Then then;
  };
  void Run();
  static void Tell(const Job& job, std::vector<float> values, const std::exception_ptr& failure);
  void Answer(const std::list<Job>& jobs);
  void AnswerAlone(const Job& job);
  std::vector<float> Read(const std::vector<TokenPair>& texts);

  std::variant<Embedder, Reranker> model_;
  const std::string name_;
  const std::vector<std::string> aliases_;
  const int64_t most_tokens_;
  Metrics metrics_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_, ended_;
  std::list<Job> jobs_;  ///< taking some needs no memory
  int64_t tokens_ = 0;   ///< of jobs that wait
  int64_t jobs_submitted_ = 0, jobs_ended_ = 0;
  EngineStats stats_;  ///< but for what waits
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace oort::serve
