// SPDX-License-Identifier: MIT
// Which beams go on: the book-keeping of beam search, without a model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oort/engine.h"

namespace oort {

/// A beginning of an answer, and how it may go on.
struct Beam {
  const GeneratedAnswer* answer = nullptr;   ///< so far, with the sum of its log-probabilities
  std::span<const TokenLogprob> top_tokens;  ///< next tokens, best first
  bool complete = false;                     ///< nothing may follow, and it is an answer as it is
};

/// One of them with one token more.
struct BeamStep {
  size_t beam = 0;
  TokenLogprob token;
  float score = 0;  ///< the sum of its log-probabilities
};

/// Decides as the beam search of transformers does, in floats like it.
class BeamSearch {
 public:
  BeamSearch(const BeamOptions& options, int64_t most_tokens, std::vector<int32_t> end_tokens,
             int top_logprobs = -1);

  /// So many of the most likely tokens of a beam can matter.
  int64_t candidates() const { return candidates_; }
  /// Takes what the model says of all running beams. Returns those that go on, best first, none
  /// when the search is over.
  std::vector<BeamStep> Advance(std::span<const Beam> beams);
  bool done() const { return done_; }
  /// The best answers, best first, each with its score and why it ended.
  std::vector<GeneratedAnswer>& answers() { return answers_; }

  /// An answer with one token more, and with log-probabilities where they are wanted.
  void Append(GeneratedAnswer& answer, const TokenLogprob& token,
              std::span<const TokenLogprob> top_tokens) const;

 private:
  void Keep(GeneratedAnswer answer, float score);
  float Normalized(float score, int64_t length) const;

  BeamOptions options_;
  int64_t most_tokens_;
  std::vector<int32_t> end_tokens_;
  int top_logprobs_;
  int64_t candidates_;
  bool done_ = false;
  std::vector<GeneratedAnswer> answers_;
};

}  // namespace oort
