// SPDX-License-Identifier: MIT
// /v1/rerank: a query and texts in, the texts by how well they answer it out; as Jina, Cohere and
// vLLM have it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "openai/fields.h"

namespace oort::openai {

struct RerankLimits {
  size_t documents = 2048;  ///< of one request
};

struct RerankCall {
  std::string query;
  std::vector<std::string> documents;
  size_t top = 0;              ///< results at most; 0: all
  bool with_documents = true;  ///< results have the texts
  std::optional<std::chrono::steady_clock::duration> timeout;
};

RerankCall ParseRerankRequest(const Json& body, const std::string& model_name,
                              const std::vector<std::string>& aliases, bool any_name,
                              const RerankLimits& limits = {});

/// What the request cost, beside its scores.
struct RerankCost {
  int64_t tokens = 0;
  int64_t truncated = 0;  ///< pairs that were cut to what the model takes
};

/// A list of the texts, the best first: {"index", "relevance_score", "document"}.
std::string RerankResults(const RerankCall& call, std::span<const float> scores);
/// The body of the answer.
std::string RerankBody(const RerankCall& call, const std::string& id, const std::string& model_name,
                       std::span<const float> scores, const RerankCost& cost);

}  // namespace oort::openai
