// SPDX-License-Identifier: MIT
// Why requests failed that are not to blame for it: their askers learn that they did, and whoever
// runs the server learns the reason.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "openai/request_error.h"

namespace oort::serve {

/// Thread contract: any number of threads.
class FailureLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// `warn` gets a line for each reason; it may be empty.
  explicit FailureLog(std::function<void(std::string_view)> warn) : warn_(std::move(warn)) {}

  /// What the asker is told. Where the server is to blame the reason is told, too, but the same one
  /// only once a minute: a rank that is gone fails every request.
  openai::ApiError ErrorOf(const std::exception_ptr& failure, std::string_view request);

 private:
  /// Whether the reason is told, and is remembered as told then.
  bool IsNews(const std::string& reason);

  std::function<void(std::string_view)> warn_;
  std::mutex mutex_;  // of what follows
  std::string last_reason_;
  Clock::time_point last_told_{};
};

}  // namespace oort::serve
