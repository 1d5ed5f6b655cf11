// SPDX-License-Identifier: MIT
// /v1/messages: Anthropic's API, as a thin layer over OpenAI's.
#include <array>

#include "serve/anthropic.h"
#include "serve/generate_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

void AnswerMessages(Services& services, http::Request request, const Context& context) {
  try {
    const openai::Json given = context.TakeBody(request, services.limits);
    openai::Fields fields(given);
    const openai::Json body = FromAnthropic(fields);
    const auto job = std::make_shared<GenerateJob>(
        services, context, openai::ParseChatRequest(body, services.served, services.limits),
        [&](const openai::GenerateCall& kept) { return AnthropicFormat(kept, services.served); });
    job->Begin();
  } catch (...) {
    const openai::ApiError error = openai::ApiErrorOf(std::current_exception());
    ++(error.status < 500 ? services.metrics.rejected_invalid : services.metrics.failed);
    context.SendError(error, AnthropicError(error));
  }
}

constexpr std::array kAnthropicRoutes = {
    Route{"POST", "/v1/messages", AnswerMessages, AnthropicError},
};

}  // namespace

std::span<const Route> AnthropicRoutes() { return kAnthropicRoutes; }

}  // namespace oort::serve
