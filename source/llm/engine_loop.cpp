// SPDX-License-Identifier: MIT
#include "oort/engine_loop.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/guard.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr int kMostWithoutMemory = 4;

}  // namespace

/// What one request comes to: written once by the loop, read by whoever has the handle.
struct EngineLoop::Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  bool taken = false;
  std::optional<GenerateResult> result;
  std::exception_ptr failure;
  std::weak_ptr<Impl> loop;
  std::function<void()> on_ready;

  void Set(std::optional<GenerateResult> given, std::exception_ptr thrown) {
    {
      const std::lock_guard lock(mutex);
      result = std::move(given);
      failure = std::move(thrown);
      ready = true;
    }
    changed.notify_all();
    if (!on_ready) return;
    try {
      std::exchange(on_ready, nullptr)();
    } catch (...) {
      // What a caller does about his answer must not end the others'.
    }
  }
  /// Under the lock, when it is ready.
  GenerateResult Take() {
    if (std::exchange(taken, true)) {
      throw Error(ErrorCode::kInvalidArgument, "the result of a request can be had once");
    }
    if (failure) std::rethrow_exception(failure);
    return std::move(*result);
  }
};

/// Callers leave commands in a queue, which the thread reads between steps: no lock is held while
/// it computes.
struct EngineLoop::Impl {
  struct Command {
    std::shared_ptr<Answer> answer;
    std::optional<GenerateRequest> request;  ///< none: cancel the one that the answer is for
  };

  EngineLoopOptions options;
  Engine engine;
  /// The engine's numbers, which grow, and whose they are; the thread's own. Each step looks at all
  /// of them, so they lie side by side.
  std::vector<std::pair<int64_t, std::shared_ptr<Answer>>> answers;
  std::map<const Answer*, int64_t> numbers;  ///< of these
  std::exception_ptr step_failure;           ///< of the last step, if it failed as a whole
  std::atomic<bool> cancel_all = false;

  mutable std::mutex mutex;  // of all that follows
  std::condition_variable wake, idle;
  std::vector<Command> commands;
  int64_t queued = 0, queued_tokens = 0;  ///< in commands
  bool closed = false;                    ///< takes no more requests
  bool stop = false;                      ///< ends as soon as it can
  bool busy = false;
  EngineStats stats;
  std::thread thread;

  Impl(std::shared_ptr<const LanguageModel> model, const EngineLoopOptions& given)
      : options(given), engine(std::move(model), given.engine), stats(engine.stats()) {}

  void Push(Command command) {
    {
      const std::lock_guard lock(mutex);
      commands.push_back(std::move(command));
    }
    wake.notify_one();
  }
  void Run();
  bool Await(std::vector<Command>& taken, bool more);
  void Begin(Command& command);
  void Obey(std::vector<Command>& taken);
  void Publish() {
    const std::lock_guard lock(mutex);
    stats = engine.stats();
  }
  void Deliver();
};

/// Hands a request to the engine. Everything that needs memory comes before: what the engine has
/// is delivered.
void EngineLoop::Impl::Begin(Command& command) {
  const auto entry = numbers.emplace(command.answer.get(), -1).first;
  try {
    answers.emplace_back(-1, command.answer);
    try {
      entry->second = answers.back().first = engine.Submit(std::move(*command.request));
    } catch (...) {
      answers.pop_back();
      throw;
    }
  } catch (...) {
    numbers.erase(entry);
    throw;
  }
}

/// What a caller asked for since the last step.
void EngineLoop::Impl::Obey(std::vector<Command>& taken) {
  for (Command& command : taken) {
    if (!command.request) {
      const auto found = numbers.find(command.answer.get());
      if (found != numbers.end()) engine.Cancel(found->second);
      continue;
    }
    try {
      Begin(command);
    } catch (...) {
      command.answer->Set({}, std::current_exception());
    }
  }
  taken.clear();
}

/// Hands over what is finished; where a step failed as a whole, its failure instead.
void EngineLoop::Impl::Deliver() {
  std::erase_if(answers, [&](const auto& entry) {
    std::optional<GenerateResult> result;
    std::exception_ptr failure;
    try {
      result = engine.Take(entry.first);
      if (result && result->finish == FinishReason::kCancelled) failure = step_failure;
    } catch (...) {
      failure = std::current_exception();
    }
    if (!result && !failure) return false;
    entry.second->Set(std::move(result), std::move(failure));
    numbers.erase(entry.second.get());
    return true;
  });
}

/// Waits for something to do and takes the commands; false when the loop is to end.
bool EngineLoop::Impl::Await(std::vector<Command>& taken, bool more) {
  std::unique_lock lock(mutex);
  stats = engine.stats();
  busy = more || !commands.empty();
  if (!busy) idle.notify_all();
  wake.wait(lock, [&] { return stop || more || !commands.empty(); });
  std::swap(taken, commands);
  queued = queued_tokens = 0;
  busy = true;
  return more || !taken.empty() || !stop;
}

void EngineLoop::Impl::Run() {
  std::vector<Command> taken;
  bool more = false;
  int without_memory = 0;  // steps in a row
  while (Await(taken, more)) {
    Obey(taken);
    if (cancel_all.load()) {
      for (const auto& [number, answer] : answers) engine.Cancel(number);
    }
    try {
      more = engine.Step();
      Publish();  // first: who has an answer finds it counted
      Deliver();
      step_failure = nullptr;
      without_memory = 0;
    } catch (...) {
      // A moment later there may be memory, and the engine is as it was before the step.
      const bool may_go_on = CaughtError().code() == ErrorCode::kOutOfMemory;
      if (may_go_on && ++without_memory < kMostWithoutMemory) {
        more = true;
        continue;
      }
      // What fails as a whole ends all that run; the loop goes on with what comes.
      without_memory = 0;
      step_failure = std::current_exception();
      for (const auto& [number, answer] : answers) engine.Cancel(number);
      more = !answers.empty();
    }
  }
}

EngineLoop::Request& EngineLoop::Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    Cancel();
    answer_ = std::move(other.answer_);
  }
  return *this;
}

bool EngineLoop::Request::ready() const {
  if (!answer_) return false;
  const std::lock_guard lock(answer_->mutex);
  return answer_->ready;
}

GenerateResult EngineLoop::Request::Wait() {
  return Guarded([&] {
    if (!answer_) throw Error(ErrorCode::kInvalidArgument, "this handle has no request");
    std::unique_lock lock(answer_->mutex);
    answer_->changed.wait(lock, [&] { return answer_->ready; });
    return answer_->Take();
  });
}

std::optional<GenerateResult> EngineLoop::Request::WaitFor(std::chrono::nanoseconds most) {
  return Guarded([&]() -> std::optional<GenerateResult> {
    if (!answer_) throw Error(ErrorCode::kInvalidArgument, "this handle has no request");
    std::unique_lock lock(answer_->mutex);
    if (!answer_->changed.wait_for(lock, most, [&] { return answer_->ready; })) return {};
    return answer_->Take();
  });
}

void EngineLoop::Request::Cancel() noexcept {
  if (!answer_ || ready()) return;
  const std::shared_ptr<Impl> loop = answer_->loop.lock();
  if (!loop) return;
  try {
    loop->Push({answer_, {}});
  } catch (...) {
    // Without memory for the command the request runs to its own end.
  }
}

EngineLoop::EngineLoop(std::shared_ptr<const LanguageModel> model,
                       const EngineLoopOptions& options) {
  Guarded([&] {
    if (options.most_waiting < 1 || options.most_waiting_tokens < 1) {
      throw Error(ErrorCode::kInvalidArgument, "a queue has room for a request at least");
    }
    impl_ = std::make_shared<Impl>(std::move(model), options);
    impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
  });
}

EngineLoop::~EngineLoop() {
  impl_->cancel_all = true;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closed = impl_->stop = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

EngineLoop::Request EngineLoop::Submit(GenerateRequest request, std::function<void()> on_ready) {
  return Guarded([&] {
    const int64_t tokens = static_cast<int64_t>(request.prompt.size());
    auto answer = std::make_shared<Answer>();
    answer->loop = impl_;
    answer->on_ready = std::move(on_ready);
    if (!request.arrived) request.arrived = std::chrono::steady_clock::now();
    {
      const std::lock_guard lock(impl_->mutex);
      const EngineStats& stats = impl_->stats;
      if (impl_->closed) throw Error(ErrorCode::kLimit, "the engine takes no more requests");
      if (stats.waiting + impl_->queued >= impl_->options.most_waiting ||
          stats.waiting_tokens + impl_->queued_tokens + tokens >
              impl_->options.most_waiting_tokens) {
        throw Error(ErrorCode::kLimit, std::to_string(stats.waiting + impl_->queued) +
                                           " requests wait already: try again later");
      }
      impl_->commands.push_back({answer, std::move(request)});
      ++impl_->queued;
      impl_->queued_tokens += tokens;
    }
    impl_->wake.notify_one();
    return Request(std::move(answer));
  });
}

bool EngineLoop::Drain(std::chrono::nanoseconds most) {
  std::unique_lock lock(impl_->mutex);
  impl_->closed = true;
  const auto is_idle = [&] { return !impl_->busy && impl_->commands.empty(); };
  if (impl_->idle.wait_for(lock, most, is_idle)) return true;
  impl_->cancel_all = true;
  impl_->idle.wait(lock, is_idle);
  return false;
}

EngineStats EngineLoop::stats() const {
  const std::lock_guard lock(impl_->mutex);
  EngineStats stats = impl_->stats;
  stats.waiting += impl_->queued;  // that the engine sees behind its next step
  stats.waiting_tokens += impl_->queued_tokens;
  return stats;
}

}  // namespace oort
