// SPDX-License-Identifier: MIT
// /v1: OpenAI's API.
#include <array>
#include <chrono>

#include "openai/json_writer.h"
#include "serve/generate_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

using openai::JsonWriter;

void Generate(Services& services, const Context& context, openai::GenerateCall call) {
  const auto job = std::make_shared<GenerateJob>(
      services, context, std::move(call),
      [&](const openai::GenerateCall& kept) { return OpenAiFormat(kept, services.served); });
  job->Begin();
}

void AnswerChat(Services& services, http::Request request, const Context& context) {
  const openai::Json body = openai::ParseBody(request.body, services.limits);
  request = {};
  Generate(services, context, openai::ParseChatRequest(body, services.served, services.limits));
}

void AnswerCompletion(Services& services, http::Request request, const Context& context) {
  const openai::Json body = openai::ParseBody(request.body, services.limits);
  request = {};
  Generate(services, context,
           openai::ParseCompletionsRequest(body, services.served, services.limits));
}

void WriteModel(JsonWriter& out, const Services& services, const std::string& name) {
  const int64_t context = services.served.context;
  out.Open('{').Key("id").String(name).Key("object").String("model");
  out.Key("created").Integer(services.started);
  out.Key("owned_by").String("oort").Key("root").String(services.served.name);
  out.Key("parent").Null().Key("max_model_len").Integer(context).Close('}');
}

void ListModels(Services& services, http::Request, const Context& context) {
  JsonWriter out;
  out.Open('{').Key("object").String("list").Key("data").Open('[');
  WriteModel(out, services, services.served.name);
  for (const std::string& alias : services.served.aliases) WriteModel(out, services, alias);
  out.Close(']').Close('}');
  context.Send(200, out.Take());
}

/// "a%2Fb" is "a/b".
std::string Unescaped(std::string_view text) {
  const auto digit = [](char c) {
    const char lower = static_cast<char>(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    plain += escape ? static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2])) : text[i];
    i += escape ? 2 : 0;
  }
  return plain;
}

void ShowModel(Services& services, http::Request request, const Context& context) {
  const std::string name = Unescaped(std::string_view(request.path).substr(11));
  bool known = name == services.served.name;
  for (const std::string& alias : services.served.aliases) known |= name == alias;
  if (!known) {
    throw openai::RequestError({404, "there is no such model here: see /v1/models",
                                "invalid_request_error", "model", "model_not_found"});
  }
  JsonWriter out;
  WriteModel(out, services, name);
  context.Send(200, out.Take());
}

constexpr std::array kOpenAiRoutes = {
    Route{"POST", "/v1/chat/completions", AnswerChat},
    Route{"POST", "/v1/completions", AnswerCompletion},
    Route{"GET", "/v1/models", ListModels},
    Route{"GET", "/v1/models/", ShowModel},
};

}  // namespace

std::span<const Route> OpenAiRoutes() { return kOpenAiRoutes; }

}  // namespace oort::serve
