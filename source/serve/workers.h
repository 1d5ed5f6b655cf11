// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace oort::serve {

/// Threads for what takes longer than the server's own thread may: JSON, templates, tokens.
/// Thread contract: any number of threads.
class Workers {
 public:
  Workers(int threads, size_t most_bytes);
  ~Workers() { Stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Does what is queued, and takes nothing more.
  void Stop();
  /// False where too many bytes wait already, or it has stopped. Work may throw: that ends nothing
  /// else.
  [[nodiscard]] bool Push(std::function<void()> work, size_t bytes = 0);

 private:
  struct Item {
    std::function<void()> work;
    size_t bytes;
  };
  void Run();

  const size_t most_bytes_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<Item> items_;
  size_t bytes_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace oort::serve
