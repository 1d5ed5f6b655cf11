// SPDX-License-Identifier: MIT
#include "llm/check_request.h"

namespace oort {
namespace {

// Each byte of an answer is held against every stop string; each token keeps its top_logprobs.
constexpr size_t kMostStops = 256;
constexpr size_t kMostStopBytes = size_t{64} << 10;
constexpr int kMostLogprobs = 1024;

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
  for (const int32_t token : request.prompt) CheckToken(token, vocabulary, "");
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    CheckToken(token, vocabulary, " of logit_bias");
  }
  if (request.sampling.logit_bias.size() > static_cast<size_t>(vocabulary)) {
    throw Error(ErrorCode::kLimit, "logit_bias has more entries than the model has tokens");
  }
  if (request.sampling.top_logprobs > kMostLogprobs) {
    throw Error(ErrorCode::kLimit, "top_logprobs is at most " + std::to_string(kMostLogprobs) +
                                       ", not " + std::to_string(request.sampling.top_logprobs));
  }
  CheckStops(request.stops);
}

}  // namespace oort
