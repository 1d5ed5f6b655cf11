// SPDX-License-Identifier: MIT
// /v1: OpenAI's API.
#include <algorithm>
#include <array>
#include <chrono>

#include "openai/json_writer.h"
#include "serve/encoder_loop.h"
#include "serve/generate_job.h"
#include "serve/responses.h"
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
  const openai::Json body = context.TakeBody(request, services.limits);
  request = {};
  Generate(services, context, ParseChat(body, services, context));
}

void AnswerCompletion(Services& services, http::Request request, const Context& context) {
  const openai::Json body = context.TakeBody(request, services.limits);
  request = {};
  Generate(services, context,
           openai::ParseCompletionsRequest(body, services.served, services.limits));
}

void AnswerResponses(Services& services, http::Request request, const Context& context) {
  const openai::Json body = context.TakeBody(request, services.limits);
  openai::Fields fields(body);
  openai::Json told;
  openai::FieldNames names;
  const openai::Json chat = FromResponses(fields, told, names);
  const auto job = std::make_shared<GenerateJob>(
      services, context, ParseChat(chat, services, context, names),
      [&](const openai::GenerateCall& kept) {
        return ResponsesFormat(kept, services.served, std::move(told));
      });
  job->Begin();
}

void WriteModel(JsonWriter& out, const Services& services, const ListedModel& model,
                const std::string& name) {
  out.Open('{').Key("id").String(name).Key("object").String("model");
  out.Key("created").Integer(services.started);
  out.Key("owned_by").String("oort").Key("root").String(model.name);
  out.Key("parent").StringOrNull(model.base);
  out.Key("max_model_len");
  model.context > 0 ? out.Integer(model.context) : out.Null();
  out.Key("input_modalities").Open('[').String("text");
  if (model.reads_pictures) out.String("image");
  out.Close(']');
  out.Key("status").Open('{').Key("value").String(Name(model.state)).Close('}');
  out.Close('}');
}

/// All that requests can name.
std::vector<ListedModel> AllModels(const Services& services) {
  std::vector<ListedModel> models = services.models();
  for (const EncoderLoop* loop : {services.encoder, services.reranker}) {
    if (loop == nullptr) continue;
    ListedModel& model = models.emplace_back();
    model.name = loop->name();
    model.aliases = loop->aliases();
    model.context = loop->max_tokens();
  }
  return models;
}

void ListModels(Services& services, http::Request, const Context& context) {
  JsonWriter out;
  out.Open('{').Key("object").String("list").Key("data").Open('[');
  for (const ListedModel& model : AllModels(services)) {
    WriteModel(out, services, model, model.name);
    for (const std::string& alias : model.aliases) WriteModel(out, services, model, alias);
  }
  out.Close(']').Close('}');
  context.Send(200, out.Take());
}

void ShowModel(Services& services, http::Request request, const Context& context) {
  const std::string name = Unescaped(std::string_view(request.path).substr(11));
  for (const ListedModel& model : AllModels(services)) {
    if (name != model.name && std::ranges::find(model.aliases, name) == model.aliases.end()) {
      continue;
    }
    JsonWriter out;
    WriteModel(out, services, model, name);
    return context.Send(200, out.Take());
  }
  throw openai::RequestError({404, "there is no such model here: see /v1/models",
                              "invalid_request_error", "model", "model_not_found"});
}

constexpr std::array kOpenAiRoutes = {
    Route{"POST", "/v1/chat/completions", AnswerChat},
    Route{"POST", "/v1/completions", AnswerCompletion},
    Route{"POST", "/v1/responses", AnswerResponses},
    Route{"GET", "/v1/models", ListModels},
    Route{"GET", "/v1/models/", ShowModel},
};

}  // namespace

std::span<const Route> OpenAiRoutes() { return kOpenAiRoutes; }

}  // namespace oort::serve
