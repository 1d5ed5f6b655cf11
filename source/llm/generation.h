// SPDX-License-Identifier: MIT
// What an Engine knows of its requests.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "llm/beam_search.h"
#include "llm/picture_places.h"
#include "llm/sampling/without_logits.h"
#include "llm/scheduler.h"
#include "llm/speculation/guess_planner.h"
#include "llm/stop_strings.h"
#include "oort/engine.h"

namespace oort {

using Clock = std::chrono::steady_clock;

inline double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline double SecondsSince(Clock::time_point start) { return Seconds(Clock::now() - start); }

struct Generation;

/// What picks the next token of an answer beside its logits and its sampler.
struct NextToken {
  std::vector<uint32_t> allowed;     ///< bits of the tokens that may come; empty: all may
  std::vector<LogitChange> changes;  ///< where the token is drawn on a device
  /// The above is known before the step has ended, or that no token may come, or what went wrong.
  bool is_found = false;
  bool is_none = false;
  std::exception_ptr failure;
};

/// A request: what all of its answers share.
struct AnswerGroup {
  int64_t id;
  GenerateRequest request;
  int64_t most_tokens = 0;
  int64_t unborn = 0;  ///< answers that begin when the prompt is read
  int64_t live = 0;    ///< Generations
  GenerateResult result;
  std::vector<GeneratedAnswer> answers;  ///< finished ones
  std::exception_ptr failure;            ///< what ended it, where something went wrong
  std::optional<BeamSearch> search;
  std::vector<Generation*> beams;  ///< that run
  std::optional<PicturePlaces> pictures;
  /// Of an encoder-decoder: what its decoder begins with, the token that comes first, and the
  /// prompt, once it is read.
  std::optional<int32_t> start_token, first_token;
  std::shared_ptr<const EncodedText> encoded;

  AnswerGroup(int64_t number, GenerateRequest wanted);
  int64_t made() const { return std::max({request.n, request.best_of, request.beams.width}); }
  /// What is in the cache before an answer.
  std::span<const int32_t> beginning() const {
    return start_token ? std::span<const int32_t>(&*start_token, 1)
                       : std::span<const int32_t>(request.prompt);
  }
  bool picks_best() const { return request.best_of > request.n; }
  /// What Take gives, when all answers have ended.
  GenerateResult Assemble(const LanguageModel& model);
};

/// An answer that is queued or running: one of several, or a beam.
struct Generation {
  int64_t id;  ///< its own: that of the request, for the first
  std::shared_ptr<AnswerGroup> group;
  const GenerateRequest& request;  ///< the group's
  Sampler sampler;
  StopStrings stops;
  std::unique_ptr<TokenConstraint> constraint;
  std::optional<TokenStream> text;
  GeneratedAnswer result;
  Sequence* sequence = nullptr;  ///< the scheduler's
  int64_t most_tokens = 0;
  bool finished = false;
  int flights = 0;  ///< steps under way that have a row of it
  NextToken next;
  // Of a beam, when its row was computed:
  bool scored = false, complete = false;
  std::vector<TokenLogprob> top_tokens;
  // Where guesses are made:
  std::vector<Guess> guesses;     ///< what its next tokens may be
  std::vector<int32_t> checked;   ///< in the step under way: its last token, and guesses behind it
  std::optional<GuessOdds> odds;  ///< by how its guesses turned out
  std::optional<double> guess_chance;
  std::vector<float> hidden;  ///< what its last token was picked of, for heads that guess
  int64_t tokens_since_guess = 0;

  Generation(int64_t number, std::shared_ptr<AnswerGroup> of, int index);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation() { --group->live; }

  /// Takes part in a step.
  void Start(Clock::time_point now) {
    if (result.timings.started == Clock::time_point{}) result.timings.started = now;
  }
  void SetFirstToken() {
    result.timings.first_token = Clock::now();
    result.timings.first_token_seconds =
        Seconds(result.timings.first_token - result.timings.arrived);
  }
  /// Whether it is too early for an end.
  bool must_go_on() const {
    return static_cast<int64_t>(result.tokens.size()) < request.min_tokens;
  }
  /// Whether its next token is one that every answer begins with.
  bool is_forced() const { return group->first_token && result.tokens.empty(); }
  /// Whether tokens that would end it may not come next.
  bool forbids_end() const {
    return must_go_on() && (!request.ignore_end || !request.stop_tokens.empty());
  }
  /// Whether not every token may come next.
  bool is_bound() const { return constraint || forbids_end() || is_forced(); }
  /// Whether its next token is the argmax of the logits, whatever came before.
  bool picks_argmax() const {
    return PicksArgmax(sampler.options()) && !group->search && !is_bound();
  }
  /// Whether how its next token is picked shows when those before it are known.
  bool awaits_tokens() const { return is_bound() || DependsOnTokens(sampler.options()); }
  /// Whether its logits are wanted here, even where tokens are drawn elsewhere.
  bool needs_logits() const {
    return group->search || sampler.options().top_logprobs > cuda::kMostReported;
  }
};

/// What Take gives, or throws.
struct FinishedGeneration {
  GenerateResult result;
  std::exception_ptr failure;
};

}  // namespace oort
