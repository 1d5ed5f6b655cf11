// SPDX-License-Identifier: MIT
// An Engine on a thread of its own: requests from any thread, answers when they are ready.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "oort/engine.h"

namespace oort {

struct EngineLoopOptions {
  EngineOptions engine;
  int64_t most_waiting = 1024;            ///< requests that wait for their first step
  int64_t most_waiting_tokens = 1 << 20;  ///< of their prompts together
};

/// Thread contract: any number of threads. Callbacks of requests run on the loop's thread, between
/// steps: they should hand over what they get and return, and must not wait for another request.
class EngineLoop {
  struct Impl;
  struct Answer;

 public:
  /// A request under way, which ends when its handle goes. Thread contract: one thread at a time.
  class Request {
   public:
    Request() = default;
    ~Request() { Cancel(); }
    Request(Request&&) noexcept = default;
    Request& operator=(Request&& other) noexcept;

    bool ready() const;
    /// Waits for the result, which can be had once. Throws what went wrong for this request.
    GenerateResult Wait();
    /// The same, for so long; none if it takes longer.
    std::optional<GenerateResult> WaitFor(std::chrono::nanoseconds most);
    /// Ends the request within a step, with FinishReason::kCancelled and what it has by then.
    void Cancel() noexcept;

   private:
    friend class EngineLoop;
    explicit Request(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
    std::shared_ptr<Answer> answer_;
  };

  explicit EngineLoop(std::shared_ptr<const LanguageModel> model,
                      const EngineLoopOptions& options = {});
  /// Cancels what is left, and waits for the step under way.
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  /// Throws kLimit where too many wait already: the caller may try again later. What an Engine
  /// refuses for good is thrown by Wait. `on_ready` is called on the loop's thread as soon as Wait
  /// would not wait, cancelled or not.
  Request Submit(GenerateRequest request, std::function<void()> on_ready = {});
  /// Takes no more requests (kLimit), and waits until those that it has are finished; after `most`
  /// the others are cancelled. Returns whether all came to their own end.
  bool Drain(std::chrono::nanoseconds most);
  /// As of the last step.
  EngineStats stats() const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace oort
