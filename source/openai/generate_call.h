// SPDX-License-Identifier: MIT
// What /v1/chat/completions and /v1/completions ask for, as requests of an Engine. All that can be
// refused is refused here, before anything runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/engine.h"
#include "oort/tool_calls.h"
#include "openai/answer_form.h"
#include "openai/fields.h"

namespace oort::openai {

/// Beyond these a request is refused: it comes from anywhere.
struct Limits {
  size_t body_bytes = size_t{4} << 20;
  size_t messages = 4096, parts = 4096, tools = 128;
  size_t pictures = 16;
  int64_t choices = 64;  ///< prompts × n
  int64_t best_of = 16;
  size_t stops = 16, stop_bytes = 4096, stop_tokens = 256;
  size_t biases = 1024;
  int64_t top_logprobs = 20;
  ChatLimits chat_template = {1'000'000, size_t{8} << 20, size_t{64} << 20};
};

/// What OpenAI has where a request does not say: every token may be drawn.
inline SamplingOptions DefaultSampling() {
  SamplingOptions options;
  options.temperature = 1;
  return options;
}

/// The model as requests see it.
struct ServedModel {
  std::shared_ptr<const LanguageModel> model;
  std::string name;                  ///< in answers, and in requests that name one
  std::vector<std::string> aliases;  ///< other names that requests may use
  bool any_name = false;             ///< requests may name whatever they like
  int64_t context = 0;               ///< of prompt and answer together; 0: the model's
  int64_t max_tokens = -1;           ///< of a chat's answer that does not say; -1: as many as fit
  SamplingOptions sampling = DefaultSampling();  ///< of requests that do not say
  std::shared_ptr<AnswerForms> forms = std::make_shared<AnswerForms>();  ///< of this model
  std::string adapter;  ///< the LoRA adapter of the model that answers; empty: none
  /// Reads the picture in a file's bytes; empty where pictures are refused.
  std::function<std::shared_ptr<const Picture>(std::span<const std::byte>)> read_picture;
  std::string fingerprint;  ///< answers are comparable only under the same; empty: none
};

enum class Endpoint : unsigned char { kChat, kCompletions };

struct PromptFacts {
  int64_t tokens = 0;
  std::string text;          ///< where it is echoed
  std::vector<int32_t> ids;  ///< where they are asked for, or their log-probabilities
};

/// A request for text, one of the engine for each prompt. Choice p * n + i is answer i to prompt p.
struct GenerateCall {
  Endpoint endpoint = Endpoint::kChat;
  std::vector<GenerateRequest> requests;
  std::vector<PromptFacts> prompts;
  int64_t n = 1;  ///< choices for each prompt
  bool stream = false;
  bool include_usage = false, continuous_usage = false;  ///< of a stream
  bool logprobs = false;
  bool echo = false;
  bool ignore_end = false;
  bool return_token_ids = false;
  bool include_stop = false;  ///< the text ends with the stop string that ended it
  /// What the text of a chat's answer is taken apart into.
  AnswerParserOptions parts;
  bool parallel_calls = true;  ///< else the first call of an answer is its only one

  size_t choices() const { return prompts.size() * static_cast<size_t>(n); }
};

/// Answer i of those to one prompt.
inline const GeneratedAnswer& AnswerOf(const GenerateResult& result, size_t i) {
  return i == 0 ? result : result.others.at(i - 1);
}

/// The JSON of a body; throws a RequestError for what is none, is nested deeply or has a key twice.
Json ParseBody(std::string_view body, const Limits& limits = {});

/// Called before each picture of a request is read, which takes long; throws where that would be
/// for nothing.
using PictureGate = std::function<void(const GenerateRequest&)>;

GenerateCall ParseChatRequest(const Json& body, const ServedModel& served,
                              const Limits& limits = {}, const PictureGate& gate = {});
GenerateCall ParseCompletionsRequest(const Json& body, const ServedModel& served,
                                     const Limits& limits = {});

/// Throws 404 (model_not_found) unless the field "model" is missing or one of the names.
void CheckModelName(Fields& fields, std::string_view name, const std::vector<std::string>& aliases,
                    bool any_name);

}  // namespace oort::openai
