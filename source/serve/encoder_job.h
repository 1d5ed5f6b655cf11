// SPDX-License-Identifier: MIT
// A request whose texts an encoder or a reranker reads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/context.h"

namespace oort::serve {

/// Of one request; its asker may leave.
struct EncoderJob {
  std::vector<TokenPair> texts;
  /// The answer, of what the loop says of the texts; called on the loop's thread.
  std::function<std::string(const std::vector<float>&)> body;
  int64_t tokens = 0;  ///< filled in
  std::atomic<bool> left = false;
};

/// Gives the texts to the loop, and the answer to the asker once it is there.
void Begin(EncoderLoop& loop, const Context& context, const std::shared_ptr<EncoderJob>& job);

}  // namespace oort::serve
