// SPDX-License-Identifier: MIT
// /v1/messages: Anthropic's API, as a thin layer over OpenAI's.
#include <array>

#include "openai/common_fields.h"
#include "openai/json_writer.h"
#include "openai/tools.h"
#include "serve/anthropic.h"
#include "serve/generate_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

void AnswerMessages(Services& services, http::Request request, const Context& context) {
  try {
    const openai::Json given = context.TakeBody(request, services.limits);
    openai::Fields fields(given);
    openai::FieldNames names;
    const openai::Json body = FromAnthropic(fields, false, &names);
    openai::CheckThinking(body, services.served, "thinking");
    const auto job = std::make_shared<GenerateJob>(
        services, context, ParseChat(body, services, context, names),
        [&](const openai::GenerateCall& kept) { return AnthropicFormat(kept, services.served); });
    job->Begin();
  } catch (...) {
    const openai::ApiError error = context.ErrorOf(std::current_exception());
    services.metrics.AddRefused(error.status);
    context.SendError(error, AnthropicError(error));
  }
}

/// How many tokens a conversation has, also one that is too long to be answered.
void CountTokens(Services& services, http::Request request, const Context& context) {
  const openai::Json given = context.TakeBody(request, services.limits);
  openai::Fields fields(given);
  openai::FieldNames names;
  const openai::Json body = FromAnthropic(fields, true, &names);
  const openai::ServedModel& served = services.served;
  const size_t count = names.Within([&] {
    openai::Fields chat(body);
    openai::CheckModelName(chat, served.name, served.aliases, served.any_name);
    const openai::ToolFields tools = openai::ReadTools(chat, services.limits);
    std::vector<openai::PictureSource> pictures;
    const ChatInputs inputs =
        openai::ReadChatInputs(chat, *served.model, tools.tools, services.limits, pictures);
    return served.model
        ->EncodeChat(inputs, "default", services.limits.chat_template,
                     openai::ReadPictures(pictures, served))
        .size();
  });
  openai::JsonWriter out;
  out.Open('{').Key("input_tokens").Integer(static_cast<int64_t>(count)).Close('}');
  context.Send(200, out.Take());
}

constexpr std::array kAnthropicRoutes = {
    Route{"POST", "/v1/messages", AnswerMessages, AnthropicError},
    Route{"POST", "/v1/messages/count_tokens", CountTokens, AnthropicError},
};

}  // namespace

std::span<const Route> AnthropicRoutes() { return kAnthropicRoutes; }

}  // namespace oort::serve
