// SPDX-License-Identifier: MIT
// What an Engine knows of its requests.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "llm/decoder_runner.h"
#include "llm/stop_strings.h"
#include "oort/engine.h"

namespace oort {

/// A request that is queued or running.
struct Generation {
  int64_t id;
  GenerateRequest request;
  Sampler sampler;
  StopStrings stops;
  std::optional<TokenStream> text;
  GenerateResult result;
  CachedSequence sequence;
  std::vector<int32_t> again;  ///< prompt and answer, where they have to be read once more
  int64_t prompt_done = 0;
  int64_t most_tokens = 0;
  bool finished = false;
  std::exception_ptr failure;  ///< what ended it, where something went wrong
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point first_token{};

  Generation(int64_t number, GenerateRequest wanted)
      : id(number), request(std::move(wanted)), sampler(request.sampling), stops(request.stops) {
    sampler.AddPrompt(request.prompt);
  }
  /// What is read before the next token of the answer.
  const std::vector<int32_t>& prompt() const { return again.empty() ? request.prompt : again; }
  int64_t prompt_left() const { return static_cast<int64_t>(prompt().size()) - prompt_done; }
  /// Of what is or will be in the cache before the next token.
  int64_t known_length() const {
    return std::max(sequence.length, static_cast<int64_t>(prompt().size()));
  }
  /// Tokens that its keys and values take in the end.
  int64_t most_length() const { return static_cast<int64_t>(request.prompt.size()) + most_tokens; }
};

/// What Take gives, or throws.
struct FinishedGeneration {
  GenerateResult result;
  std::exception_ptr failure;

  FinishedGeneration(GenerateResult given, std::exception_ptr thrown)
      : result(std::move(given)), failure(std::move(thrown)) {}
};

/// Tokens of a finished request that the cache still holds.
struct KeptSequence {
  std::vector<int32_t> tokens;
  CachedSequence sequence;
  bool is_long = false;  ///< for the model's angles
};

}  // namespace oort
