// SPDX-License-Identifier: MIT
#include "oort/log.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace oort::log {
namespace {

struct Heard {
  Sink sink;
  int calls = 0;  ///< under way; guarded by g_mutex
};

std::atomic<Level> g_level{Level::kOff};
std::mutex g_mutex;
std::condition_variable g_returned;
std::shared_ptr<Heard> g_heard;  // guarded by g_mutex

/// A call of the sink, and the one within which this thread makes it.
class Call {
 public:
  Call() {
    const std::lock_guard lock(g_mutex);
    heard_ = g_heard;
    if (heard_) ++heard_->calls;
  }
  ~Call() {
    t_innermost = outer_;
    if (!heard_) return;
    const std::lock_guard lock(g_mutex);
    --heard_->calls;
    g_returned.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Sink* sink() const { return heard_ ? &heard_->sink : nullptr; }

  /// How many calls of it this thread is in.
  static int OfThisThread(const Heard* heard) {
    int calls = 0;
    for (const Call* call = t_innermost; call != nullptr; call = call->outer_) {
      calls += call->heard_.get() == heard ? 1 : 0;
    }
    return calls;
  }

 private:
  static thread_local const Call* t_innermost;
  std::shared_ptr<Heard> heard_;
  const Call* outer_ = std::exchange(t_innermost, this);
};

thread_local const Call* Call::t_innermost = nullptr;

}  // namespace

void SetSink(Sink sink, Level level) {
  auto heard = sink ? std::make_shared<Heard>(Heard{std::move(sink)}) : nullptr;
  std::shared_ptr<Heard> before;  // ends behind the lock: what it holds may log when it goes
  std::unique_lock lock(g_mutex);
  g_level = heard ? level : Level::kOff;
  before = std::exchange(g_heard, std::move(heard));
  if (!before) return;
  // What the sink uses may go as soon as this returns. Calls that this thread is in cannot end now.
  const int own = Call::OfThisThread(before.get());
  g_returned.wait(lock, [&] { return before->calls == own; });
}

bool Enabled(Level level) { return level >= g_level.load(std::memory_order_relaxed); }

void Write(Level level, std::string_view message) {
  if (!Enabled(level)) return;
  const Call call;
  if (const Sink* sink = call.sink()) (*sink)(level, message);
}

}  // namespace oort::log
