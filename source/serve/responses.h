// SPDX-License-Identifier: MIT
// OpenAI's /v1/responses, the part that keeps no state: its requests as chats, and answers in its
// form.
#pragma once

#include <memory>

#include "openai/field_names.h"
#include "openai/fields.h"
#include "serve/answer_format.h"

namespace oort::serve {

/// The body of the same request to /v1/chat/completions; `told` gets the fields that an answer
/// repeats, and `names` what those of the chat were made of. Refuses what would need a state:
/// conversations, earlier responses, work in the background.
openai::Json FromResponses(openai::Fields& fields, openai::Json& told, openai::FieldNames& names);

/// Call and model must outlive it.
std::unique_ptr<AnswerFormat> ResponsesFormat(const openai::GenerateCall& call,
                                              const openai::ServedModel& served, openai::Json told);

}  // namespace oort::serve
