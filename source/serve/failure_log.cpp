// SPDX-License-Identifier: MIT
#include "serve/failure_log.h"

#include <utility>

namespace oort::serve {
namespace {

constexpr std::chrono::seconds kSameReason{60};

/// Empty where the request has an answer of its own, such as that it came too late.
std::string ReasonOf(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const openai::RequestError&) {
    return {};
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown failure";
  }
}

}  // namespace

openai::ApiError FailureLog::ErrorOf(const std::exception_ptr& failure, std::string_view request) {
  const openai::ApiError error = openai::ApiErrorOf(failure);
  if (error.status < 500 || !warn_) return error;
  const std::string reason = ReasonOf(failure);
  if (!reason.empty() && IsNews(reason)) {
    warn_("request " + std::string(request) + " failed: " + reason);
  }
  return error;
}

bool FailureLog::IsNews(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (reason == last_reason_ && now - last_told_ < kSameReason) return false;
  last_reason_ = reason;
  last_told_ = now;
  return true;
}

}  // namespace oort::serve
