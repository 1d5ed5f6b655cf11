// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <stop_token>

namespace oort::c_api {

/// Lets any thread end what another one is in; what comes later is not ended.
class Cancellation {
 public:
  /// Work that Cancel ends. One at a time.
  class Scope {
   public:
    explicit Scope(Cancellation& cancellation) : cancellation_(cancellation) {
      const std::lock_guard lock(cancellation_.mutex_);
      if (cancellation_.stop_.stop_requested()) cancellation_.stop_ = std::stop_source();
      cancellation_.working_ = true;
    }
    ~Scope() {
      const std::lock_guard lock(cancellation_.mutex_);
      cancellation_.working_ = false;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    std::stop_token token() const { return cancellation_.stop_.get_token(); }

   private:
    Cancellation& cancellation_;
  };

  /// Does nothing where no work is under way.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    if (working_) stop_.request_stop();
  }

 private:
  std::mutex mutex_;
  std::stop_source stop_;
  bool working_ = false;
};

}  // namespace oort::c_api
