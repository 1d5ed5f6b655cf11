// SPDX-License-Identifier: MIT
#include "c_api/result.h"

#include <cstddef>
#include <mutex>
#include <utility>

#include "c_api/border.h"
#include "c_api/model.h"
#include "openai/answer_message.h"
#include "text/json.h"

// C sees the elements of std::vector<TokenLogprob> as they are.
static_assert(sizeof(oort_token_logprob) == sizeof(oort::TokenLogprob));
static_assert(offsetof(oort_token_logprob, token) == offsetof(oort::TokenLogprob, token));
static_assert(offsetof(oort_token_logprob, logprob) == offsetof(oort::TokenLogprob, logprob));

namespace oort::c_api {
namespace {

const GeneratedAnswer* AnswerOf(const oort_result* result, size_t answer) {
  if (result == nullptr || answer > result->result.others.size()) return nullptr;
  if (answer == 0) return &result->result;
  return &result->result.others[answer - 1];
}

/// The elements of a list, and how many.
template <typename Element>
const Element* ListOf(const std::vector<Element>* list, size_t* count) {
  const bool some = list != nullptr && !list->empty();
  if (count != nullptr) *count = some ? list->size() : 0;
  return some ? list->data() : nullptr;
}

/// The same of log-probabilities.
const oort_token_logprob* TopOf(const std::vector<TokenLogprob>* top, size_t* count) {
  return reinterpret_cast<const oort_token_logprob*>(ListOf(top, count));
}

/// The same of those at a place.
const oort_token_logprob* TopAt(const std::vector<std::vector<TokenLogprob>>* places, size_t place,
                                size_t* count) {
  const bool there = places != nullptr && place < places->size();
  return TopOf(there ? &(*places)[place] : nullptr, count);
}

/// As OpenAI's API has messages of the assistant.
std::string AssistantMessageOf(const oort_result& result, const GeneratedAnswer& answer) {
  const openai::AnswerMessage read =
      openai::ReadMessage(openai::MessageReader(result.parts, result.parallel_calls), answer.text);
  json::OrderedJson message = {{"role", "assistant"}, {"content", read.content}};
  if (read.content.empty() && !read.calls.empty()) message["content"] = nullptr;
  if (!read.reasoning.empty()) message["reasoning_content"] = read.reasoning;
  for (const openai::ToolCall& call : read.calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  // What a model writes may end in the middle of a character.
  return message.dump(-1, ' ', false, json::OrderedJson::error_handler_t::replace);
}

}  // namespace
}  // namespace oort::c_api

using oort::c_api::AnswerOf;
using oort::c_api::ListOf;
using oort::c_api::Need;
using oort::c_api::TopAt;
using oort::c_api::TopOf;

const char* oort_piece_text(const oort_piece* piece) {
  return piece == nullptr ? "" : piece->text.c_str();
}

size_t oort_piece_length(const oort_piece* piece) {
  return piece == nullptr ? 0 : piece->text.size();
}

int32_t oort_piece_token(const oort_piece* piece) { return piece == nullptr ? -1 : piece->token; }

int32_t oort_piece_answer(const oort_piece* piece) { return piece == nullptr ? 0 : piece->answer; }

float oort_piece_logprob(const oort_piece* piece) { return piece == nullptr ? 0 : piece->logprob; }

const oort_token_logprob* oort_piece_top(const oort_piece* piece, size_t* count) {
  return TopOf(piece == nullptr ? nullptr : &piece->top, count);
}

size_t oort_result_count(const oort_result* result) {
  return result == nullptr ? 0 : result->result.others.size() + 1;
}

const char* oort_result_text(const oort_result* result, size_t answer, size_t* length) {
  const oort::GeneratedAnswer* found = AnswerOf(result, answer);
  if (length != nullptr) *length = found == nullptr ? 0 : found->text.size();
  return found == nullptr ? "" : found->text.c_str();
}

oort_code oort_result_message(const oort_result* result, size_t answer, char** message,
                              size_t* length, oort_error** error) {
  return oort::c_api::AtBorder(error, [&] {
    if (length != nullptr) *length = 0;
    Need(message, "message");
    *message = nullptr;
    Need(result, "result");
    const oort::GeneratedAnswer* found = AnswerOf(result, answer);
    if (found == nullptr) {
      throw oort::Error(oort::ErrorCode::kInvalidArgument,
                        "there is no answer " + std::to_string(answer));
    }
    const std::lock_guard lock(result->mutex);
    std::string& kept = result->messages[answer];
    if (kept.empty()) kept = oort::c_api::AssistantMessageOf(*result, *found);
    oort::c_api::GiveText(kept, message, length);
  });
}

const int32_t* oort_result_tokens(const oort_result* result, size_t answer, size_t* count) {
  const oort::GeneratedAnswer* found = AnswerOf(result, answer);
  return ListOf(found == nullptr ? nullptr : &found->tokens, count);
}

const char* oort_result_finish(const oort_result* result, size_t answer) {
  const oort::GeneratedAnswer* found = AnswerOf(result, answer);
  return found == nullptr ? "" : oort::Name(found->finish).data();
}

const char* oort_result_stop(const oort_result* result, size_t answer) {
  const oort::GeneratedAnswer* found = AnswerOf(result, answer);
  return found == nullptr ? "" : found->stop.c_str();
}

const float* oort_result_logprobs(const oort_result* result, size_t answer, size_t* count) {
  const oort::GeneratedAnswer* found = AnswerOf(result, answer);
  return ListOf(found == nullptr ? nullptr : &found->logprobs, count);
}

const oort_token_logprob* oort_result_top(const oort_result* result, size_t answer, size_t place,
                                          size_t* count) {
  const oort::GeneratedAnswer* found = AnswerOf(result, answer);
  return TopAt(found == nullptr ? nullptr : &found->top, place, count);
}

const float* oort_result_prompt_logprobs(const oort_result* result, size_t* count) {
  return ListOf(result == nullptr ? nullptr : &result->result.prompt_logprobs, count);
}

const oort_token_logprob* oort_result_prompt_top(const oort_result* result, size_t place,
                                                 size_t* count) {
  return TopAt(result == nullptr ? nullptr : &result->result.prompt_top, place, count);
}

oort_code oort_result_number(const oort_result* result, const char* name, double* value,
                             oort_error** error) {
  return oort::c_api::AtBorder(error, [&] {
    Need(value, "value");
    *value = 0;
    Need(result, "result");
    Need(name, "name");
    const oort::GenerateResult& answer = result->result;
    const std::pair<const char*, double> numbers[] = {
        {"prompt_seconds", answer.timings.prompt_seconds},
        {"generate_seconds", answer.timings.generate_seconds},
        {"first_token_seconds", answer.timings.first_token_seconds},
        {"reused_tokens", static_cast<double>(answer.reused_tokens)},
        {"score", answer.score}};
    *value = oort::c_api::NumberOf<double>(numbers, name);
  });
}

void oort_result_free(oort_result* result) { delete result; }
