// SPDX-License-Identifier: MIT
// What an Engine knows of its requests.
#pragma once

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
  int64_t prompt_left() const { return static_cast<int64_t>(request.prompt.size()) - prompt_done; }
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
};

}  // namespace oort
