// SPDX-License-Identifier: MIT
// Tokens that are drawn where the logits are: only the tokens come to the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cuda/stream.h"
#include "oort/tensor.h"

namespace oort::cuda {

/// How the token of one row is drawn: by the steps of SamplingOptions, from the temperature on.
struct TokenDraw {
  double uniform = 0;     ///< where in the sum of all weights, from 0 to 1
  float temperature = 1;  ///< above 0
  float top_p = 1, min_p = 0;
  int32_t top_k = 0;
};

/// Thread contract: one thread at a time.
class TokenDrawer {
 public:
  explicit TokenDrawer(int device);

  /// The token of each row of logits (f32, on the device, complete), one for each draw; -1 where no
  /// logit is above -infinity. Valid until the next call.
  std::span<const int32_t> Draw(const Tensor& logits, std::span<const TokenDraw> draws);

 private:
  Stream stream_;
  std::shared_ptr<Buffer> draws_, tokens_;  // pinned: the kernel reads and writes them there
};

}  // namespace oort::cuda
