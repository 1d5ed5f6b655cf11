// SPDX-License-Identifier: MIT
#include "serve/workers.h"

#include <utility>

namespace oort::serve {
namespace {

constexpr size_t kItemBytes = 1 << 10;  // what an item takes besides its body

}  // namespace

Workers::Workers(int threads, size_t most_bytes) : most_bytes_(most_bytes) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void Workers::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool Workers::Push(std::function<void()> work, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    bytes += kItemBytes;
    if (stop_ || (bytes_ + bytes > most_bytes_ && !items_.empty())) return false;
    bytes_ += bytes;
    items_.push_back({std::move(work), bytes});
  }
  wake_.notify_one();
  return true;
}

void Workers::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    try {
      item.work();
    } catch (...) {
      // The reply of a request goes with its work, and so the asker is told.
    }
    item.work = nullptr;
    lock.lock();
    bytes_ -= item.bytes;
  }
}

}  // namespace oort::serve
