// SPDX-License-Identifier: MIT
#include "unlocked.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "oort/error.h"

namespace oort::python {
namespace {

using namespace std::chrono_literals;

/// How often the main thread looks for signals while it waits.
constexpr auto kSignalInterval = 50ms;
/// How long the interpreter's end waits for what still computes.
constexpr auto kExitPatience = 10s;

std::atomic<bool> exiting = false;
/// Threads that are outside of Python, or on their way back.
std::atomic<int> outside = 0;
unsigned long main_thread = 0;

/// Of calls of the engine, which have numbers; see CurrentCall.
std::atomic<uint64_t> calls = 0;
thread_local uint64_t current_call = 0, failed_call = 0;

/// This thread does the work of a call, maybe inside of that of another one.
class CallScope {
 public:
  explicit CallScope(uint64_t call) : outer_(std::exchange(current_call, call)) {}
  ~CallScope() { current_call = outer_; }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  uint64_t outer_;
};

/// Never destroyed: threads may look at them until the process is gone.
std::stop_source& ExitStop() {
  static auto* const stop = new std::stop_source;
  return *stop;
}

[[noreturn]] void StayForever() {
  for (;;) pause();
}

/// A thread that does what the main thread waits for.
class Helper {
 public:
  /// False where it is busy: a signal handler of Python called the library again.
  bool Start(FunctionRef<void()> work) {
    if (busy_.exchange(true)) return false;
    const std::lock_guard lock(mutex_);
    if (!std::exchange(started_, true)) std::thread([this] { Loop(); }).detach();
    work_ = work;
    done_ = false;
    changed_.notify_all();
    return true;
  }

  bool WaitFor(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return done_; });
  }

  void Release() { busy_ = false; }

  static Helper& Global() { return *Current(); }
  /// In the child of a fork, which takes no threads along: the old one has a waiter that never
  /// comes.
  static void Renew() { Current() = new Helper; }

 private:
  static Helper*& Current() {
    static auto* helper = new Helper;
    return helper;
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return work_.has_value(); });
      const FunctionRef<void()> work = *work_;
      work_.reset();
      lock.unlock();
      work();
      lock.lock();
      done_ = true;
      changed_.notify_all();
    }
  }

  std::atomic<bool> busy_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<FunctionRef<void()>> work_;
  bool done_ = false;
  bool started_ = false;
};

/// What the interpreter's end waits for.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<EndsAtExit>> members;

  static Registry& Global() {
    static auto* const registry = new Registry;
    return *registry;
  }
};

/// Stops everything that runs, and waits until no thread is on its way back to Python.
void Shutdown() {
  exiting = true;
  ExitStop().request_stop();
  PyThreadState* const state = PyEval_SaveThread();
  std::vector<std::weak_ptr<EndsAtExit>> members;
  {
    const std::lock_guard lock(Registry::Global().mutex);
    members.swap(Registry::Global().members);
  }
  for (const std::weak_ptr<EndsAtExit>& member : members) {
    if (const std::shared_ptr<EndsAtExit> alive = member.lock()) alive->End();
  }
  const auto patience = std::chrono::steady_clock::now() + kExitPatience;
  while (outside.load() > 0 && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(1ms);
  }
  PyEval_RestoreThread(state);
}

void RunOnHelper(Helper& helper, std::stop_source& stop, std::exception_ptr& failure) {
  for (;;) {
    bool done = false;
    {
      const Unlocked unlocked;
      done = helper.WaitFor(kSignalInterval);
    }
    if (done) break;
    if (PyErr_CheckSignals() == 0) continue;
    const nb::python_error interrupt;
    stop.request_stop();
    {
      const Unlocked unlocked;
      while (!helper.WaitFor(kSignalInterval)) {
      }
    }
    helper.Release();
    throw interrupt;
  }
  helper.Release();
  if (failure) std::rethrow_exception(failure);
}

void RunHereOrOnHelper(bool may_be_long, FunctionRef<void(const std::stop_token&)> work) {
  if (may_be_long && IsMainThread()) {
    Helper& helper = Helper::Global();
    std::stop_source stop;
    std::exception_ptr failure;
    const auto run = [&, token = stop.get_token()] {
      try {
        work(token);
      } catch (...) {
        failure = std::current_exception();
      }
    };
    if (helper.Start(run)) return RunOnHelper(helper, stop, failure);
  }
  const Unlocked unlocked;
  work(ExitStop().get_token());
}

}  // namespace

Unlocked::Unlocked() {
  ++outside;
  state_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
  if (exiting && !IsMainThread()) {
    --outside;
    StayForever();
  }
  PyEval_RestoreThread(state_);
  --outside;
}

Locked::Locked() {
  if (exiting && !IsMainThread()) {
    throw Error(ErrorCode::kCancelled, "the interpreter is ending");
  }
  state_ = PyGILState_Ensure();
}

Locked::~Locked() { PyGILState_Release(state_); }

SharedObject::~SharedObject() {
  if (IsExiting()) return;
  try {
    const Locked locked;
    Py_DECREF(object_);
  } catch (const Error&) {
    // The end has begun meanwhile.
  }
}

size_t CallsUnderWay() { return static_cast<size_t>(std::max(outside.load(), 0)); }

bool IsExiting() { return exiting; }

bool IsMainThread() { return PyThread_get_thread_ident() == main_thread; }

void RunUnlocked(bool may_be_long, FunctionRef<void(const std::stop_token&)> work) {
  const uint64_t call = ++calls;
  try {
    RunHereOrOnHelper(may_be_long, [&](const std::stop_token& stop) {
      const CallScope scope(call);
      work(stop);
    });
  } catch (...) {
    failed_call = call;
    throw;
  }
}

uint64_t CurrentCall() { return current_call; }

uint64_t TakeFailedCall() { return std::exchange(failed_call, 0); }

void EndAtExit(const std::shared_ptr<EndsAtExit>& member) {
  Registry& registry = Registry::Global();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.members, [](const auto& other) { return other.expired(); });
  registry.members.push_back(member);
}

void BindUnlocked(nb::module_& module) {
  main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  // The thread that forks holds the lock, and no other one lives in the child.
  pthread_atfork(nullptr, nullptr, [] {
    outside = 0;
    Helper::Renew();
  });
  module.def("_shutdown", &Shutdown);
}

}  // namespace oort::python
