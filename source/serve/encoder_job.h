// SPDX-License-Identifier: MIT
// A request whose texts an encoder or a reranker reads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/context.h"

namespace oort::serve {

/// Of one request; its asker may leave, and its time may be over.
struct EncoderJob {
  std::vector<TokenPair> texts;
  /// The answer, of what the loop says of the texts; called on the loop's thread.
  std::function<std::string(const std::vector<float>&)> body;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  // Filled in:
  std::optional<Context> context;
  int64_t tokens = 0;
  std::atomic<bool> over = false;  ///< it is answered, or nobody waits for that any more
};

/// When a request must be answered at the latest that gives itself so long.
std::chrono::steady_clock::time_point DeadlineOf(
    const std::optional<std::chrono::steady_clock::duration>& timeout, const Services& services,
    const Context& context);

/// Gives the texts to the loop, and the answer to the asker once it is there.
void Begin(EncoderLoop& loop, const Context& context, const std::shared_ptr<EncoderJob>& job);

}  // namespace oort::serve
