// SPDX-License-Identifier: MIT
// An answer while it comes. The engine's thread never touches Python: it leaves pieces in a queue,
// and wakes who waits for it, or an event loop through a descriptor.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "oort/engine_loop.h"
#include "openai/answer_message.h"
#include "unlocked.h"

namespace oort::python {

namespace nb = nanobind;

/// Ends with the interpreter, whoever still has it. In the child of a fork its thread is gone.
class EngineThread final : public EndsAtExit {
 public:
  EngineThread(std::shared_ptr<const LanguageModel> model, const EngineLoopOptions& options)
      : loop_(std::make_unique<EngineLoop>(std::move(model), options)) {}
  ~EngineThread() override { End(); }

  EngineLoop::Request Submit(GenerateRequest request, std::function<void()> on_ready);
  EngineStats stats() const;
  void End() override;
  bool IsForked() const { return process_ != getpid(); }

 private:
  pid_t process_ = getpid();
  mutable std::mutex mutex_;
  std::unique_ptr<EngineLoop> loop_;  // null behind End
};

/// Lets go of an engine with Python's lock held. The last one who does waits for its thread, which
/// may be in a step that calls an operator of Python: the lock is free meanwhile.
void LetGo(std::shared_ptr<EngineThread>& engine);

/// Thread contract: one thread of Python at a time takes from it.
class Stream {
 public:
  /// What is said of a request beside what the engine is told.
  struct Wishes {
    bool pieces = false;  ///< somebody will take them; else none are kept
    /// Of a chat: what its answers are taken apart into.
    std::optional<AnswerParserOptions> parts;
    bool parallel_calls = true;  ///< else the first call of an answer is its only one

    /// Whether there is more to find in answers than text.
    bool splits() const {
      return parts && (parts->tools != ToolStyle::kNone || parts->reasoning || parts->harmony);
    }
  };
  Stream(std::shared_ptr<EngineThread> engine, GenerateRequest request, Wishes wishes);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Pieces that are there, or that come within so many seconds (below 0: whenever they come): a
  /// list of (text, token, log-probability, most likely ones, answer), which go on with content and
  /// reasoning where the answer is taken apart; None behind the last.
  nb::object Take(double seconds);
  /// The result, which Take or this waited for; "message" is its text taken apart, of a chat.
  nb::dict Result();
  void Cancel();
  /// A descriptor that can be read when Take would not wait, but for a rest.
  int Descriptor();
  /// Seconds after which to look without being woken: pieces are let gather meanwhile. 0 where they
  /// come slowly, or the last rest brought none.
  double Rest();

 private:
  using Clock = std::chrono::steady_clock;
  struct Piece {
    int answer = 0;
    int32_t token = 0;
    std::string text;
    float logprob = 0;
    std::vector<TokenLogprob> top;
  };
  /// Shared with the engine's thread.
  struct Queue {
    std::mutex mutex;  // of all that follows
    std::condition_variable changed;
    std::deque<Piece> pieces;
    bool ended = false;
    int descriptor = -1;
    bool signalled = false;  ///< the descriptor was written to, and nobody took anything since
    bool quiet = false;      ///< the reader need not be woken yet, and looks again by itself
    bool flows = false;      ///< the last pieces came so fast that the reader may be quiet once
    Clock::time_point last{}, woken{};  ///< when a piece came, and when one woke the reader
    Clock::duration gap{};              ///< between the last two pieces

    ~Queue();
    void Push(Piece piece);
    /// True where there were pieces, or none will come.
    bool Take(std::deque<Piece>& taken);
    bool BeQuiet();
    void Wake();
  };

  nb::tuple TupleOf(const Piece& piece);
  /// Waits until `ready` holds for the queue; false after so many seconds.
  template <typename Ready>
  bool WaitUntil(double seconds, const Ready& ready);

  std::shared_ptr<Queue> queue_;
  bool logprobs_ = false;
  Wishes wishes_;
  std::map<int, openai::MessageReader> readers_;  ///< of answers whose pieces are taken apart
  std::shared_ptr<EngineThread> engine_;
  EngineLoop::Request request_;
  std::optional<GenerateResult> result_;
};

void BindStream(nb::module_& module);

}  // namespace oort::python
