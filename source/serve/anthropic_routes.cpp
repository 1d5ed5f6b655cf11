// SPDX-License-Identifier: MIT
// /v1/messages: Anthropic's API, as a thin layer over OpenAI's.
#include <array>

#include "openai/json_writer.h"
#include "openai/response.h"
#include "serve/generate_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

using openai::Fields;
using openai::Json;
using openai::JsonWriter;

std::string_view AnthropicType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string AnthropicError(const openai::ApiError& error) {
  JsonWriter out;
  out.Open('{').Key("type").String("error").Key("error").Open('{');
  out.Key("type").String(AnthropicType(error.status)).Key("message").String(error.message);
  out.Close('}').Close('}');
  return out.Take();
}

std::string NamedEvent(std::string_view name, JsonWriter data) {
  return "event: " + std::string(name) + "\ndata: " + data.Take() + "\n\n";
}

/// One message with one block of text.
class AnthropicFormat : public AnswerFormat {
 public:
  AnthropicFormat(const openai::GenerateCall& call, const openai::ServedModel& served)
      : call_(call),
        served_(served),
        id_("msg_" + openai::NewResponseHead(openai::Endpoint::kChat).id.substr(9)) {}

  std::string Whole(std::span<const GenerateResult> results) override {
    JsonWriter out;
    BeginMessage(out);
    out.Key("content").Open('[').Open('{').Key("type").String("text");
    out.Key("text").String(results[0].text).Close('}').Close(']');
    WriteStop(out, &results[0]);
    out.Key("usage");
    WriteUsage(out, &results[0]);
    out.Close('}');
    return out.Take();
  }
  std::string ErrorBody(const openai::ApiError& error) const override {
    return AnthropicError(error);
  }
  std::string_view stream_type() const override { return "text/event-stream; charset=utf-8"; }
  std::string First(int64_t) override {
    JsonWriter start;
    start.Open('{').Key("type").String("message_start").Key("message");
    BeginMessage(start);
    start.Key("content").Open('[').Close(']');
    WriteStop(start, nullptr);
    start.Key("usage");
    WriteUsage(start, nullptr);
    start.Close('}').Close('}');
    JsonWriter block;
    block.Open('{').Key("type").String("content_block_start").Key("index").Integer(0);
    block.Key("content_block").Open('{').Key("type").String("text").Key("text").String("");
    block.Close('}').Close('}');
    return NamedEvent("message_start", std::move(start)) +
           NamedEvent("content_block_start", std::move(block));
  }
  std::string Piece(int64_t, const GeneratedPiece& piece) override {
    if (piece.text.empty()) return {};
    JsonWriter out;
    out.Open('{').Key("type").String("content_block_delta").Key("index").Integer(0);
    out.Key("delta").Open('{').Key("type").String("text_delta").Key("text").String(piece.text);
    out.Close('}').Close('}');
    return NamedEvent("content_block_delta", std::move(out));
  }
  std::string Last(int64_t, const GenerateResult& result) override {
    JsonWriter stop, delta, end;
    stop.Open('{').Key("type").String("content_block_stop").Key("index").Integer(0).Close('}');
    delta.Open('{').Key("type").String("message_delta").Key("delta").Open('{');
    WriteStop(delta, &result);
    delta.Close('}').Key("usage");
    WriteUsage(delta, &result);
    delta.Close('}');
    end.Open('{').Key("type").String("message_stop").Close('}');
    return NamedEvent("content_block_stop", std::move(stop)) +
           NamedEvent("message_delta", std::move(delta)) +
           NamedEvent("message_stop", std::move(end));
  }
  std::string End(std::span<const GenerateResult>) override { return {}; }
  std::string Failure(const openai::ApiError& error) override {
    return "event: error\ndata: " + AnthropicError(error) + "\n\n";
  }

 private:
  void BeginMessage(JsonWriter& out) const {
    out.Open('{').Key("id").String(id_).Key("type").String("message");
    out.Key("role").String("assistant").Key("model").String(served_.name);
  }
  static void WriteStop(JsonWriter& out, const GenerateResult* result) {
    out.Key("stop_reason");
    if (result == nullptr) {
      out.Null();
    } else if (!result->stop.empty()) {
      out.String("stop_sequence");
    } else {
      out.String(result->finish == FinishReason::kStop ? "end_turn" : "max_tokens");
    }
    out.Key("stop_sequence").StringOrNull(result == nullptr ? "" : result->stop);
  }
  void WriteUsage(JsonWriter& out, const GenerateResult* result) const {
    const int64_t tokens = result == nullptr ? 0 : static_cast<int64_t>(result->tokens.size());
    out.Open('{').Key("input_tokens").Integer(call_.prompts[0].tokens);
    out.Key("output_tokens").Integer(tokens).Close('}');
  }

  const openai::GenerateCall& call_;
  const openai::ServedModel& served_;
  const std::string id_;
};

/// The same request to OpenAI's API.
Json FromAnthropic(Fields& fields) {
  Json body = Json::object();
  for (const char* name : {"model", "max_tokens", "temperature", "top_p", "top_k", "stream"}) {
    if (const Json* value = fields.Find(name)) body[name] = *value;
  }
  if (!body.contains("max_tokens")) fields.Fail("max_tokens", "is missing");
  const Json* stops = fields.List("stop_sequences", SIZE_MAX);
  if (stops != nullptr && !stops->empty()) body["stop"] = *stops;
  const Json* messages = fields.List("messages", SIZE_MAX);
  if (messages == nullptr || messages->empty()) {
    fields.Fail("messages", "must have at least one message");
  }
  body["messages"] = Json::array();
  if (const Json* system = fields.Find("system")) {
    body["messages"].push_back({{"role", "system"}, {"content", *system}});
  }
  for (const Json& message : *messages) body["messages"].push_back(message);
  // Marks where a prompt may be cached; here every beginning is.
  for (Json& message : body["messages"]) {
    if (!message.is_object() || !message.contains("content")) continue;
    if (!message["content"].is_array()) continue;
    for (Json& part : message["content"]) {
      if (part.is_object()) part.erase("cache_control");
    }
  }
  if (const Json* tools = fields.Find("tools")) {
    if (!tools->is_array() || !tools->empty()) fields.Fail("tools", "are not available here yet");
  }
  fields.Ignore({"metadata", "service_tier"});
  fields.CheckAllKnown();
  return body;
}

void AnswerMessages(Services& services, http::Request request, const Context& context) {
  try {
    const Json given = openai::ParseBody(request.body, services.limits);
    Fields fields(given);
    const Json body = FromAnthropic(fields);
    const auto job = std::make_shared<GenerateJob>(
        services, context, openai::ParseChatRequest(body, services.served, services.limits),
        [&](const openai::GenerateCall& kept) {
          return std::make_unique<AnthropicFormat>(kept, services.served);
        });
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
