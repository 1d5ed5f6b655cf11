// SPDX-License-Identifier: MIT
// Log-probabilities, in the two forms that OpenAI's API has for them.
#pragma once

#include <cstdint>
#include <span>

#include "oort/engine.h"
#include "openai/json_writer.h"

namespace oort::openai {

/// Tokens of an answer with what is known of each, the end token left out.
struct ScoredTokens {
  std::span<const int32_t> tokens;
  std::span<const float> logprobs;
  std::span<const std::vector<TokenLogprob>> top;
};

/// A chat's: {"content": [{token, logprob, bytes, top_logprobs}]}
void WriteChatLogprobs(JsonWriter& out, const Tokenizer& tokenizer, const ScoredTokens& scored);

/// A completion's four lists side by side; `offset` is where the text of the tokens begins in the
/// text of the choice, in characters.
void WriteCompletionLogprobs(JsonWriter& out, const Tokenizer& tokenizer,
                             const ScoredTokens& scored, int64_t offset);

/// The same for an echoed prompt and the answer behind it, whose text begins at `offset`. Nothing
/// predicts the first token: `echoed` has one token more than log-probabilities.
void WriteEchoLogprobs(JsonWriter& out, const Tokenizer& tokenizer, const ScoredTokens& echoed,
                       const ScoredTokens& scored, int64_t offset);

}  // namespace oort::openai
