// SPDX-License-Identifier: MIT
// What one rendering may use. A template comes with a model from anywhere, so it is told when to
// stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "oort/error.h"

namespace oort::jinja {

[[noreturn]] inline void Fail(std::string message) {
  throw Error(ErrorCode::kInvalidArgument, std::move(message));
}
[[noreturn]] inline void FailUnsupported(std::string message) {
  throw Error(ErrorCode::kUnsupported, std::move(message));
}
[[noreturn]] inline void FailLimit(std::string message) {
  throw Error(ErrorCode::kLimit, std::move(message));
}

/// Values nest no deeper, so that walking one by recursion is safe.
inline constexpr int kMaxNesting = 100;
/// Bytes that a value may come to when it is written out.
inline constexpr size_t kMaxWeight = size_t{1} << 28;

class Budget {
 public:
  Budget(int64_t steps, size_t memory) : steps_(steps), memory_(memory) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Called for each node that is evaluated, each turn of a loop, and by whatever walks over data.
  void Step(int64_t count = 1) {
    if ((steps_ -= count) < 0) FailLimit("the limit of steps of a chat template is reached");
  }
  void Take(size_t bytes) {
    if (bytes > memory_) FailLimit("the memory limit of a chat template is reached");
    memory_ -= bytes;
  }
  void GiveBack(size_t bytes) noexcept { memory_ += bytes; }
  /// For text that is about to be made: a step for each 64 bytes, and room for it.
  void Work(size_t bytes) {
    if (bytes > memory_) FailLimit("the memory limit of a chat template is reached");
    Step(static_cast<int64_t>(bytes / 64));
  }

 private:
  int64_t steps_;
  size_t memory_;
};

}  // namespace oort::jinja
