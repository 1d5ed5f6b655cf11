// SPDX-License-Identifier: MIT
// /v1/embeddings: texts in, vectors out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "openai/fields.h"

namespace oort::openai {

struct EmbeddingsLimits {
  size_t inputs = 2048;          ///< texts of one request; OpenAI's limit
  size_t vocabulary = SIZE_MAX;  ///< ids of tokens are below
};

struct EmbeddingsCall {
  /// Each a text, or tokens of one.
  std::vector<std::variant<std::string, std::vector<int32_t>>> inputs;
  bool base64 = false;  ///< vectors as little-endian f32
  std::optional<std::chrono::steady_clock::duration> timeout;
};

/// `dimensions` is what the model's vectors have: another number is refused.
EmbeddingsCall ParseEmbeddingsRequest(const Json& body, const std::string& model_name,
                                      const std::vector<std::string>& aliases, bool any_name,
                                      int64_t dimensions, const EmbeddingsLimits& limits = {});

/// The body of the answer: `vectors` holds one after the other.
std::string EmbeddingsBody(const EmbeddingsCall& call, const std::string& model_name,
                           std::span<const float> vectors, int64_t dimensions,
                           int64_t prompt_tokens);

}  // namespace oort::openai
