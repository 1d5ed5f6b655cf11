// SPDX-License-Identifier: MIT
// Tokens that are drawn where the logits are: only the tokens come to the host, and what is asked
// of their log-probabilities.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cuda/stream.h"
#include "llm/sampling/logit_change.h"
#include "oort/tensor.h"

namespace oort::cuda {

/// How the token of one row is drawn: by the steps of SamplingOptions.
struct TokenDraw {
  double uniform = 0;     ///< where in the sum of all weights, from 0 to 1
  float temperature = 1;  ///< above 0
  float top_p = 1, min_p = 0;
  int32_t top_k = 0;      ///< 1, with a `uniform` of 0: the argmax
  int32_t row = 0;        ///< of the logits
  int32_t reported = -1;  ///< as SamplingOptions::top_logprobs, kMostReported at most
  std::span<const LogitChange> changes{};  ///< no token twice
  std::span<const uint32_t> allowed{};     ///< as Sampler::Sample has it
};

/// Most likely tokens whose log-probabilities a draw can tell.
inline constexpr int32_t kMostReported = 32;

/// Of a row, as the model gave it.
struct DrawReport {
  struct Logit {
    float value;
    int32_t token;
  };
  int32_t row = 0;
  int32_t count = 0;  ///< of `top`, in any order
  float max = 0;
  float drawn = 0;     ///< the logit of the token that was drawn
  double weights = 1;  ///< the sum of all exp(logit - max)
  std::array<Logit, kMostReported> top;
};

/// Thread contract: one thread at a time.
class TokenDrawer {
 public:
  /// Who draws takes turns: one can be prepared while another is under way.
  static constexpr size_t kTurns = 3;

  virtual ~TokenDrawer() = default;
  /// Enqueues one draw each for some rows of the logits (f32), behind what is enqueued already.
  /// Writes tokens[row], -1 where no logit is above -infinity; `tokens` is pinned. The draws are
  /// read before the call returns; those of this turn before are over.
  virtual void Begin(size_t turn, const Tensor& logits, std::span<const TokenDraw> draws,
                     int32_t* tokens) = 0;
  /// Waits for the draws; a report for each, whether asked for or not, valid until the next Begin
  /// of this turn.
  virtual std::span<const DrawReport> End(size_t turn) = 0;

 protected:
  /// Throws kInvalidArgument where a draw does not fit the logits.
  static void Check(size_t turn, const Tensor& logits, std::span<const TokenDraw> draws);
};

/// Draws on the device of the stream, behind its work. Null for no stream: there the host draws.
std::unique_ptr<TokenDrawer> MakeTokenDrawer(Stream* stream);

/// As long as it lives, MakeTokenDrawer calls `make`: for tests without a GPU, one at a time.
class TokenDrawerOverride {
 public:
  using Maker = std::function<std::unique_ptr<TokenDrawer>()>;
  explicit TokenDrawerOverride(Maker make);
  ~TokenDrawerOverride();
  TokenDrawerOverride(const TokenDrawerOverride&) = delete;
  TokenDrawerOverride& operator=(const TokenDrawerOverride&) = delete;
  static bool active();
};

/// What MakeTokenDrawer does where nothing overrides it; throws in a build without CUDA.
std::unique_ptr<TokenDrawer> MakeCudaTokenDrawer(Stream& stream);

}  // namespace oort::cuda
