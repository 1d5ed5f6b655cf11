// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace oort {

/// How the next token is picked from the logits. The steps, in this order (that of transformers):
/// logit_bias, repetition_penalty, presence and frequency penalty, temperature, top_k, top_p,
/// min_p, and then a draw from what is left.
struct SamplingOptions {
  float temperature = 0;  ///< below 1e-5: the argmax, always; else divides the logits
  int64_t top_k = 0;      ///< the k most likely and those that tie with the last of them; 0: all
  float top_p = 1;        ///< the most likely until their sum reaches p, at least one
  float min_p = 0;        ///< those at least this share as likely as the most likely
  /// Logits of tokens seen in prompt or answer are divided by it (multiplied if negative).
  float repetition_penalty = 1;
  /// Taken from the logit of a token that the answer has, once, and for each time it has it.
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;  ///< added; -infinity forbids a token
  /// Draw i of a seed is always the same, whatever else runs.
  uint64_t seed = 0;
  /// Log-probabilities of so many most likely tokens are reported; -1: none, not even the chosen
  /// one's.
  int top_logprobs = -1;
};

struct LogitChange;

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct SampledToken {
  int32_t token = 0;
  /// Of the model's own distribution, before any of the steps; 0 unless top_logprobs asks for it.
  float logprob = 0;
  std::vector<TokenLogprob> top;  ///< most likely first
};

/// The log-probability of a token, and `top` most likely ones, in the model's own distribution.
SampledToken LogprobOf(std::span<const float> logits, int32_t token, int top);

/// Picks the tokens of one sequence, and remembers them for the penalties. What it picks depends on
/// the options, on the logits and on how many it picked before, and on nothing else.
/// A logit that is NaN is never picked; of equal ones the lowest id is the likelier.
/// Thread contract: one thread at a time.
class Sampler {
 public:
  /// Throws kInvalidArgument where an option makes no sense.
  explicit Sampler(SamplingOptions options = {});
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  /// Tokens of the prompt: the repetition penalty looks at them.
  void AddPrompt(std::span<const int32_t> tokens);
  /// Throws kInvalidArgument where no token can be picked. `allowed` has bit t % 32 of word t / 32
  /// set for each token t that may be; empty: all may.
  SampledToken Sample(std::span<const float> logits, std::span<const uint32_t> allowed = {});
  /// As if `token` had been picked: for answers that are given in part.
  void Accept(int32_t token);

  /// The most likely tokens, with log-probabilities to which biases and penalties were added: the
  /// steps of beam search in transformers. Nothing is picked.
  std::vector<TokenLogprob> TopTokens(std::span<const float> logits, int64_t count,
                                      std::span<const uint32_t> allowed = {});
  /// Another one, which has picked the same.
  Sampler Clone() const;

  const SamplingOptions& options() const;
  /// Where on the sum of all weights, from 0 to 1, the next token will be drawn, or the one so many
  /// further on.
  double NextUniform(int64_t ahead = 0) const;

 private:
  friend SampledToken LogprobOf(std::span<const float> logits, int32_t token, int top);
  friend void FindLogitChanges(const Sampler& sampler, size_t vocabulary,
                               std::vector<LogitChange>& changes);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oort
