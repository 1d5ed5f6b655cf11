// SPDX-License-Identifier: MIT
// What an Engine knows of its requests.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "llm/sampling/without_logits.h"
#include "llm/scheduler.h"
#include "llm/stop_strings.h"
#include "oort/engine.h"

namespace oort {

/// A request that is queued or running.
struct Generation {
  int64_t id;
  GenerateRequest request;
  Sampler sampler;
  StopStrings stops;
  std::unique_ptr<TokenConstraint> constraint;
  std::optional<TokenStream> text;
  GenerateResult result;
  Sequence* sequence = nullptr;  ///< the scheduler's
  int64_t most_tokens = 0;
  bool finished = false;
  int flights = 0;             ///< steps under way that have a row of it
  std::exception_ptr failure;  ///< what ended it, where something went wrong
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point first_token{};

  Generation(int64_t number, GenerateRequest wanted)
      : id(number),
        request(std::move(wanted)),
        sampler(request.sampling),
        stops(request.stops),
        constraint(request.constraint ? request.constraint->Clone() : nullptr) {
    sampler.AddPrompt(request.prompt);
  }

  /// Whether it is too early for an end.
  bool must_go_on() const {
    return static_cast<int64_t>(result.tokens.size()) < request.min_tokens;
  }
  /// Whether its next token is one of all, as the sampler draws it: where the logits are will do.
  bool only_draws() const {
    return OnlyDraws(sampler.options()) && !constraint && (request.ignore_end || !must_go_on());
  }
  bool picks_argmax() const { return only_draws() && PicksArgmax(sampler.options()); }
};

/// What Take gives, or throws.
struct FinishedGeneration {
  GenerateResult result;
  std::exception_ptr failure;

  FinishedGeneration(GenerateResult given, std::exception_ptr thrown)
      : result(std::move(given)), failure(std::move(thrown)) {}
};

}  // namespace oort
