// SPDX-License-Identifier: MIT
// An encoder on a thread of its own: texts of requests that wait together become vectors together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "oort/embedder.h"
#include "serve/metrics.h"

namespace oort::serve {

/// Thread contract: any number of threads.
class EncoderLoop {
 public:
  using Tokens = std::vector<int32_t>;
  /// One of both: the vectors, one behind the other, or what went wrong.
  using Then = std::function<void(std::vector<float>, std::exception_ptr)>;
  /// Whether somebody still waits for it.
  using Wanted = std::function<bool()>;

  /// `aliases`: other names that requests may use. At most `most_tokens` wait.
  EncoderLoop(Embedder embedder, std::string name, std::vector<std::string> aliases = {},
              int64_t most_tokens = 1 << 20);
  /// What waits is told kCancelled.
  ~EncoderLoop();
  EncoderLoop(const EncoderLoop&) = delete;
  EncoderLoop& operator=(const EncoderLoop&) = delete;

  /// Calls `then` on the loop's thread. Throws kLimit where too much waits already.
  void Submit(std::vector<Tokens> texts, Wanted wanted, Then then);

  /// Returns when all that was submitted before is answered, and what it held is let go of: a
  /// server that shares the loop may then end.
  void Finish();

  /// Its tokens and sizes only: the rest is the loop's.
  const Embedder& embedder() const { return embedder_; }
  const std::string& name() const { return name_; }
  const std::vector<std::string>& aliases() const { return aliases_; }
  Metrics& metrics() { return metrics_; }
  /// What runs, what waits, and the tokens that were read; an encoder has no more.
  EngineStats stats() const;

 private:
  struct Job {
    std::vector<Tokens> texts;
    int64_t tokens = 0;
    Wanted wanted;
    Then then;
  };
  void Run();
  void Answer(std::vector<Job> jobs);
  void AnswerAlone(Job& job);

  Embedder embedder_;
  const std::string name_;
  const std::vector<std::string> aliases_;
  const int64_t most_tokens_;
  Metrics metrics_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_, ended_;
  std::deque<Job> jobs_;
  int64_t tokens_ = 0;  ///< of jobs that wait
  int64_t jobs_submitted_ = 0, jobs_ended_ = 0;
  EngineStats stats_;  ///< but for what waits
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace oort::serve
