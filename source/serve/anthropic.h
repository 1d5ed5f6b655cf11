// SPDX-License-Identifier: MIT
// Anthropic's API: its requests as OpenAI's, and answers in its form.
#pragma once

#include <memory>
#include <string>

#include "openai/field_names.h"
#include "openai/fields.h"
#include "serve/answer_format.h"

namespace oort::serve {

/// The body of the same request to /v1/chat/completions. `counts`: only the tokens of its prompt
/// are wanted, so that it may leave out how long the answer is. `names` gets what its fields were
/// made of.
openai::Json FromAnthropic(openai::Fields& fields, bool counts = false,
                           openai::FieldNames* names = nullptr);

/// Call and model must outlive it.
std::unique_ptr<AnswerFormat> AnthropicFormat(const openai::GenerateCall& call,
                                              const openai::ServedModel& served);
std::string AnthropicError(const openai::ApiError& error);

}  // namespace oort::serve
