// SPDX-License-Identifier: MIT
// What the endpoints that write text have in common.
#pragma once

#include <chrono>
#include <optional>

#include "openai/generate_call.h"
#include "openai/pictures.h"

namespace oort::openai {

/// Sampling, stops, limits and the form of the answer: all that does not depend on the endpoint.
/// What is left to do is to add prompts.
struct CommonFields {
  GenerateRequest request;  ///< without a prompt
  GenerateCall call;        ///< without requests
  bool max_tokens_given = false;
  bool holds_json = false;  ///< response_format, or the like, asks for JSON
};
CommonFields ReadCommonFields(Fields& fields, const ServedModel& served, const Limits& limits);

/// The conversation: "messages", and what a template may know besides; `tools` as ReadTools has it,
/// which become messages where the template of the model knows none. Pictures go to `pictures`, in
/// order.
ChatInputs ReadChatInputs(Fields& fields, const LanguageModel& model, const std::string& tools,
                          const Limits& limits, std::vector<PictureSource>& pictures);

/// "timeout": how long who asks waits for the answer.
std::optional<std::chrono::steady_clock::duration> ReadTimeout(Fields& fields);

/// A list of token ids of the model.
std::vector<int32_t> ReadIds(const Json& list, const std::string& path, size_t vocabulary);

/// Adds the requests for one prompt. Throws context_length_exceeded for one that is too long.
void AddPrompt(GenerateCall& call, const GenerateRequest& pattern, std::vector<int32_t> prompt,
               const ServedModel& served, const std::string& param);

}  // namespace oort::openai
