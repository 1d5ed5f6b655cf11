// SPDX-License-Identifier: MIT
#include "serve/log_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <new>
#include <utility>

namespace oort::serve {
namespace {

using namespace std::chrono_literals;

// What a pipe takes whole once it says that it has room.
constexpr size_t kPart = 4096;
// A reader who does not read is looked after so often.
constexpr int kLookMilliseconds = 100;

/// What is written at once of a text: lines that are whole, as far as they fit.
std::string_view NextPart(std::string_view text) {
  if (text.size() <= kPart) return text;
  const size_t end = text.rfind('\n', kPart - 1);
  return text.substr(0, end == std::string_view::npos ? kPart : end + 1);
}

}  // namespace

struct LogWriter::State {
  State(int file, Options given)
      : descriptor(fcntl(file, F_DUPFD_CLOEXEC, 0)), options(std::move(given)) {}
  ~State() {
    if (descriptor >= 0) close(descriptor);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // A copy: a thread that outlives its writer must not meet a file that was opened since under the
  // same number. Negative where there is nothing to write to.
  const int descriptor;
  const Options options;
  std::mutex mutex;  // of what follows, but `dropped`
  std::condition_variable wake, done;
  std::string waiting;
  int64_t untold = 0;  // lines that were dropped since the last word about it
  bool writing = false, stop = false;
  std::atomic<int64_t> dropped = 0;
  // Of the thread that writes: lines that could not be, and whether one of them was cut off.
  int64_t unwritten = 0;
  bool cut = false;

  bool IsWritten() const { return waiting.empty() && untold == 0 && !writing; }

  void Run() {
    std::unique_lock lock(mutex);
    std::string text;
    while (true) {
      wake.wait(lock, [&] { return stop || !waiting.empty() || untold > 0; });
      if (waiting.empty() && untold == 0) break;
      text.clear();
      text.swap(waiting);
      const int64_t missing = std::exchange(untold, 0);
      writing = true;
      lock.unlock();
      bool all = WriteLines(text);
      if (all && missing > 0) all = WriteAll(text = options.dropped_line(missing) + '\n').empty();
      if (!all) unwritten += missing;
      lock.lock();
      writing = false;
      if (IsWritten()) done.notify_all();
      if (!all && stop) break;
    }
  }

  /// Behind a word about lines that could not be written before these. False where not all can be.
  bool WriteLines(std::string_view text) {
    if (unwritten > 0) {
      const std::string told = (cut ? "\n" : "") + options.dropped_line(unwritten) + '\n';
      if (WriteAll(told).empty()) {
        unwritten = 0;
        cut = false;
      }
    }
    const std::string_view left = unwritten > 0 ? text : WriteAll(text);
    const int64_t lines = std::ranges::count(left, '\n');
    const size_t written = text.size() - left.size();
    if (written > 0) cut = text[written - 1] != '\n';
    unwritten += lines;
    dropped += lines;
    return left.empty();
  }

  /// What cannot be written of it.
  std::string_view WriteAll(std::string_view text) {
    while (!text.empty() && descriptor >= 0) {
      pollfd room{descriptor, POLLOUT, 0};
      const int ready = poll(&room, 1, kLookMilliseconds);
      if (ready == 0 && IsStopped()) break;
      if (ready <= 0) continue;
      const std::string_view part = NextPart(text);
      const ssize_t wrote = write(descriptor, part.data(), part.size());
      if (wrote > 0) {
        text.remove_prefix(static_cast<size_t>(wrote));
      } else if (errno != EINTR && errno != EAGAIN) {
        break;  // nobody will read it, or the disk is full
      }
    }
    return text;
  }

  bool IsStopped() {
    const std::lock_guard lock(mutex);
    return stop;
  }
};

LogWriter::LogWriter(int descriptor, Options options)
    : state_(new State(descriptor, std::move(options))) {
  state_->waiting.reserve(kPart);
  thread_ = std::thread([state = state_] {
    // A reader who has gone is no reason to end the process; other signals are for other threads.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (true) {
      try {
        return state->Run();
      } catch (const std::bad_alloc&) {
        const std::lock_guard lock(state->mutex);
        state->writing = false;
      }
    }
  });
}

LogWriter::~LogWriter() {
  const bool written = Flush(state_->options.end_time);
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_one();
  // A thread that waits for a reader may do so for ever, and holds nothing but its own state.
  written ? thread_.join() : thread_.detach();
}

void LogWriter::Write(std::string_view line) noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    bool taken = state_->waiting.size() + line.size() < state_->options.most_bytes;
    if (taken) {
      try {
        state_->waiting.reserve(state_->waiting.size() + line.size() + 1);
        state_->waiting.append(line).push_back('\n');
      } catch (const std::bad_alloc&) {
        taken = false;
      }
    }
    if (!taken) {
      ++state_->untold;
      ++state_->dropped;
    }
  }
  state_->wake.notify_one();
}

bool LogWriter::Flush(std::chrono::milliseconds most) {
  std::unique_lock lock(state_->mutex);
  return state_->done.wait_for(lock, most, [&] { return state_->IsWritten(); });
}

int64_t LogWriter::dropped() const { return state_->dropped; }

}  // namespace oort::serve
