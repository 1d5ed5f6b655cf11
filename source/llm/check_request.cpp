// SPDX-License-Identifier: MIT
#include "llm/check_request.h"

#include <algorithm>
#include <cmath>

namespace oort {
namespace {

// Each byte of an answer is held against every stop string; each token keeps its top_logprobs.
constexpr size_t kMostStops = 256;
constexpr size_t kMostStopBytes = size_t{64} << 10;
constexpr int kMostLogprobs = 1024;
constexpr int64_t kMostPromptLogprobs = 1'000'000;  // of all tokens of a prompt
constexpr int64_t kMostAnswers = 128;               // of one request, beams included

void CheckToken(int32_t token, int64_t vocabulary, const char* where) {
  if (token >= 0 && token < vocabulary) return;
  throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(token) + where +
                                               " is not among the model's " +
                                               std::to_string(vocabulary));
}

void CheckStops(const std::vector<std::string>& stops) {
  size_t bytes = 0;
  for (const std::string& stop : stops) bytes += stop.size();
  if (stops.size() <= kMostStops && bytes <= kMostStopBytes) return;
  throw Error(ErrorCode::kLimit, "a request has at most " + std::to_string(kMostStops) +
                                     " stop strings of " + std::to_string(kMostStopBytes) +
                                     " bytes in all, this one " + std::to_string(stops.size()) +
                                     " of " + std::to_string(bytes));
}

void CheckLogprobs(int count, const char* name) {
  if (count >= -1 && count <= kMostLogprobs) return;
  throw Error(count < -1 ? ErrorCode::kInvalidArgument : ErrorCode::kLimit,
              std::string(name) + " is from -1 to " + std::to_string(kMostLogprobs) + ", not " +
                  std::to_string(count));
}

void CheckPromptLogprobs(const GenerateRequest& request) {
  CheckLogprobs(request.prompt_logprobs, "prompt_logprobs");
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (request.prompt_logprobs * prompt <= kMostPromptLogprobs) return;
  throw Error(ErrorCode::kLimit, "a prompt of " + std::to_string(prompt) + " tokens with " +
                                     std::to_string(request.prompt_logprobs) +
                                     " log-probabilities each has more than " +
                                     std::to_string(kMostPromptLogprobs) + ": ask for fewer");
}

void CheckAnswers(const GenerateRequest& request) {
  const int64_t made = std::max(request.best_of, request.beams.width);
  if (request.n < 1 || request.best_of < 0 || request.beams.width < 0 ||
      (made > 0 && made < request.n)) {
    throw Error(ErrorCode::kInvalidArgument,
                "n is at least 1, and best_of and the width of beams are 0 or at least n");
  }
  if (std::max(request.n, made) > kMostAnswers) {
    throw Error(ErrorCode::kLimit, "a request has at most " + std::to_string(kMostAnswers) +
                                       " answers, this one " +
                                       std::to_string(std::max(request.n, made)));
  }
  if (request.on_piece && made > 0 && (request.beams.width > 0 || made > request.n)) {
    throw Error(ErrorCode::kInvalidArgument,
                "which answers are the best shows when all are finished: leave out on_piece");
  }
  if (request.beams.width == 0) return;
  if (!std::isfinite(request.beams.length_penalty)) {
    throw Error(ErrorCode::kInvalidArgument, "the length penalty of beams must be a number");
  }
  if (request.best_of > 0 || request.sampling.temperature > 0 || !request.stops.empty() ||
      !request.stop_tokens.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "beam search goes without best_of, temperature and stops");
  }
}

}  // namespace

void CheckRequest(const GenerateRequest& request, int64_t vocabulary) {
  if (request.prompt.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a prompt has at least one token");
  }
  if (request.max_tokens < -1) {
    throw Error(ErrorCode::kInvalidArgument,
                "max_tokens is at least 0, or -1 for as many as fit, not " +
                    std::to_string(request.max_tokens));
  }
  if (request.min_tokens < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "min_tokens is at least 0, not " + std::to_string(request.min_tokens));
  }
  if (request.draft_tokens < -1) {
    throw Error(ErrorCode::kInvalidArgument,
                "draft_tokens is at least 0, or -1 for as many as the engine says, not " +
                    std::to_string(request.draft_tokens));
  }
  for (const int32_t token : request.prompt) CheckToken(token, vocabulary, "");
  for (const int32_t token : request.stop_tokens) CheckToken(token, vocabulary, " of stop_tokens");
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    CheckToken(token, vocabulary, " of logit_bias");
  }
  if (request.sampling.logit_bias.size() > static_cast<size_t>(vocabulary)) {
    throw Error(ErrorCode::kLimit, "logit_bias has more entries than the model has tokens");
  }
  CheckLogprobs(request.sampling.top_logprobs, "top_logprobs");
  CheckPromptLogprobs(request);
  CheckAnswers(request);
  CheckStops(request.stops);
  if (request.stop_tokens.size() > kMostStops) {
    throw Error(ErrorCode::kLimit,
                "a request has at most " + std::to_string(kMostStops) + " stop_tokens");
  }
}

}  // namespace oort
