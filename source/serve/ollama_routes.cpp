// SPDX-License-Identifier: MIT
// /api: Ollama's API, as a thin layer over OpenAI's.
#include <array>
#include <chrono>
#include <ctime>

#include "openai/field_names.h"
#include "openai/json_writer.h"
#include "openai/response.h"
#include "openai/tools.h"
#include "serve/generate_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

using openai::Fields;
using openai::ItemPath;
using openai::Json;
using openai::JsonWriter;

/// "2026-11-17T16:47:48Z"
std::string IsoTime() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

int64_t Nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

std::string OllamaError(const openai::ApiError& error) {
  JsonWriter out;
  out.Open('{').Key("error").String(error.message).Close('}');
  return out.Take();
}

/// A line of JSON for each piece; the last has the numbers.
class OllamaFormat : public AnswerFormat {
 public:
  OllamaFormat(const openai::GenerateCall& call, const openai::ServedModel& served, bool chat)
      : call_(call), served_(served), chat_(chat), reader_(call) {}

  std::string Whole(std::span<const GenerateResult> results) override {
    const openai::AnswerMessage message = openai::ReadMessage(call_, results[0]);
    AnswerDelta delta{message.content, message.reasoning, {}};
    for (const openai::ToolCall& call : message.calls) calls_.push_back(call);
    return Line(delta, &results[0]);
  }
  std::string ErrorBody(const openai::ApiError& error) const override { return OllamaError(error); }
  std::string_view stream_type() const override { return "application/x-ndjson"; }
  std::string First(int64_t) override { return {}; }
  std::string Piece(int64_t, const GeneratedPiece& piece) override {
    return Part(reader_.Push(piece.text));
  }
  std::string Last(int64_t, const GeneratedAnswer& answer) override {
    std::string lines = Part(reader_.Finish());  // has the calls that the last line tells
    lines += Line({}, &answer) + "\n";
    return lines;
  }
  std::string End(std::span<const GenerateResult>) override { return {}; }
  std::string Failure(const openai::ApiError& error) override { return OllamaError(error) + "\n"; }
  std::string Wait() override { return "\n"; }

 private:
  std::string Part(const AnswerDelta& delta) {
    // Calls are told whole, in the last line.
    for (const ToolCallDelta& part : delta.calls) {
      if (!part.name.empty()) calls_.push_back({part.id, part.name, {}});
      calls_.back().arguments += part.arguments;
    }
    if (delta.content.empty() && delta.reasoning.empty()) return {};
    return Line(delta, nullptr) + "\n";
  }

  void WriteCalls(JsonWriter& out) const {
    out.Key("tool_calls").Open('[');
    for (const openai::ToolCall& call : calls_) {
      // Ollama has arguments as an object; what was cut off is none.
      const bool whole = Json::accept(call.arguments);
      out.Open('{').Key("function").Open('{').Key("name").String(call.name);
      out.Key("arguments").Raw(whole ? call.arguments : "{}").Close('}').Close('}');
    }
    out.Close(']');
  }

  std::string Line(const AnswerDelta& delta, const GeneratedAnswer* end) const {
    JsonWriter out;
    out.Open('{').Key("model").String(served_.name).Key("created_at").String(IsoTime());
    if (chat_) {
      out.Key("message").Open('{').Key("role").String("assistant");
      out.Key("content").String(delta.content);
      if (!delta.reasoning.empty()) out.Key("thinking").String(delta.reasoning);
      if (end != nullptr && !calls_.empty()) WriteCalls(out);
      out.Close('}');
    } else {
      out.Key("response").String(delta.content);
      if (!delta.reasoning.empty()) out.Key("thinking").String(delta.reasoning);
    }
    out.Key("done").Bool(end != nullptr);
    if (end != nullptr) {
      const GenerateTimings& timings = end->timings;
      const double total = timings.first_token_seconds + timings.generate_seconds;
      out.Key("done_reason").String(end->finish == FinishReason::kStop ? "stop" : "length");
      openai::WriteEndedBy(out, *end);
      out.Key("total_duration").Integer(Nanoseconds(total)).Key("load_duration").Integer(0);
      out.Key("prompt_eval_count").Integer(call_.prompts[0].tokens);
      out.Key("prompt_eval_duration").Integer(Nanoseconds(timings.prompt_seconds));
      out.Key("eval_count").Integer(static_cast<int64_t>(end->tokens.size()));
      out.Key("eval_duration").Integer(Nanoseconds(timings.generate_seconds));
    }
    out.Close('}');
    return out.Take();
  }

  const openai::GenerateCall& call_;
  const openai::ServedModel& served_;
  const bool chat_;
  openai::MessageReader reader_;
  std::vector<openai::ToolCall> calls_;
};

/// What Ollama calls by another name, and where it keeps it: its own, and OpenAI's.
constexpr std::array<std::pair<const char*, const char*>, 9> kOptionNames = {
    {{"temperature", "temperature"},
     {"top_k", "top_k"},
     {"top_p", "top_p"},
     {"min_p", "min_p"},
     {"seed", "seed"},
     {"stop", "stop"},
     {"repeat_penalty", "repetition_penalty"},
     {"presence_penalty", "presence_penalty"},
     {"frequency_penalty", "frequency_penalty"}}};

void CopyOptions(Fields& fields, Json& body) {
  const Json* given = fields.Object("options");
  if (given == nullptr) return;
  Fields options(*given, "options");
  for (const auto& [name, ours] : kOptionNames) {
    if (const Json* value = options.Find(name)) body[ours] = *value;
  }
  // Below 0: as many as fit.
  const auto tokens = options.Integer("num_predict", -2, INT32_MAX);
  if (tokens && *tokens >= 0) body["max_tokens"] = *tokens;
  // How it is computed, or room that is there anyway: a prompt that does not fit is refused.
  options.Ignore({"num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread",
                  "use_mmap", "use_mlock", "low_vram", "numa"});
  options.CheckAllKnown();
}

/// The body of the same request to OpenAI's API, but for what is asked.
Json Translated(Fields& fields, const openai::ServedModel& served) {
  Json body = Json::object();
  if (const auto name = fields.Text("model")) {
    body["model"] = name->substr(0, name->size() - (name->ends_with(":latest") ? 7 : 0));
  }
  body["stream"] = fields.Bool("stream").value_or(true);
  CopyOptions(fields, body);
  if (const Json* format = fields.Find("format")) {
    if (format->is_object()) {
      body["response_format"] = {{"type", "json_schema"},
                                 {"json_schema", {{"name", "format"}, {"schema", *format}}}};
    } else if (*format == "json") {
      body["response_format"] = {{"type", "json_object"}};
    } else if (!format->is_string() || !format->get_ref<const std::string&>().empty()) {
      fields.Fail("format", "must be \"json\" or a schema");
    }
  }
  if (const auto think = fields.Bool("think")) {
    body["chat_template_kwargs"] = {{"enable_thinking", *think}};
    openai::CheckThinking(body, served, "think");
  }
  fields.Ignore({"keep_alive"});
  return body;
}

/// What the fields of a translated request were made of.
openai::FieldNames OllamaNames() {
  openai::FieldNames names = {{"max_tokens", "options.num_predict"},
                              {"response_format", "format"},
                              {"response_format.json_schema.schema", "format"},
                              {"chat_template_kwargs", "think"}};
  for (const auto& [name, ours] : kOptionNames) names.Add(ours, std::string("options.") + name);
  return names;
}

/// Ollama names a tool's answer by the tool, and leaves out what says that a call is a function's.
void ToOpenAi(Json& message) {
  const auto name = message.find("tool_name");
  if (name != message.end()) {
    message["name"] = *name;
    message.erase("tool_name");
  }
}

/// A text with pictures before it, which are base64, as OpenAI's "content" of `message`.
Json WithPictures(const Json& images, const Json& text, const std::string& message,
                  const std::string& path, openai::FieldNames& names) {
  Json parts = Json::array();
  for (const Json& image : images) {
    names.Add(ItemPath(message + ".content", parts.size()) + ".image_url.url",
              ItemPath(path, parts.size()));
    // What it really is its first bytes say.
    const std::string data = image.is_string() ? image.get<std::string>() : "";
    parts.push_back(
        {{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64," + data}}}});
  }
  parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

Json ReadMessages(Fields& fields, openai::FieldNames& names) {
  const Json* given = fields.List("messages", SIZE_MAX);
  if (given == nullptr || given->empty()) fields.Fail("messages", "must have at least one message");
  Json messages = *given;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) fields.Fail("messages", "must hold objects");
    ToOpenAi(messages[i]);
    const auto images = messages[i].find("images");
    if (images == messages[i].end()) continue;
    if (!images->is_array() && !images->is_null()) {
      fields.Fail("messages", "must hold images as lists");
    }
    if (images->is_array() && !images->empty()) {
      const std::string path = ItemPath("messages", i);
      messages[i]["content"] = WithPictures(*images, messages[i].value("content", Json("")), path,
                                            path + ".images", names);
    }
    messages[i].erase("images");
  }
  return messages;
}

void Begin(Services& services, const Context& context, openai::GenerateCall call, bool chat) {
  const auto job = std::make_shared<GenerateJob>(
      services, context, std::move(call), [&](const openai::GenerateCall& kept) {
        return std::make_unique<OllamaFormat>(kept, services.served, chat);
      });
  job->Begin();
}

void OllamaChat(Services& services, const http::Request& request, const Context& context) {
  const Json given = context.TakeBody(request, services.limits);
  Fields fields(given);
  Json body = Translated(fields, services.served);
  openai::FieldNames names = OllamaNames();
  body["messages"] = ReadMessages(fields, names);
  if (const Json* tools = fields.Find("tools")) body["tools"] = *tools;
  fields.CheckAllKnown();
  Begin(services, context, ParseChat(body, services, context, names), true);
}

void OllamaGenerate(Services& services, const http::Request& request, const Context& context) {
  const Json given = context.TakeBody(request, services.limits);
  Fields fields(given);
  Json body = Translated(fields, services.served);
  const auto prompt = fields.Text("prompt");
  const auto system = fields.Text("system");
  const bool raw = fields.Bool("raw").value_or(false);
  if (!prompt) fields.Fail("prompt", "is missing");
  const Json* images = fields.List("images", SIZE_MAX);
  const bool has_pictures = images != nullptr && !images->empty();
  if (has_pictures && raw) fields.Fail("images", "have no place in a raw prompt");
  if (system && raw) fields.Fail("system", "has no place in a raw prompt");
  fields.CheckAllKnown();
  openai::FieldNames names = OllamaNames();
  if (raw) {
    body["prompt"] = *prompt;
    if (!body.contains("max_tokens")) body["max_tokens"] = services.served.context;
    const auto parse = [&] {
      return openai::ParseCompletionsRequest(body, services.served, services.limits);
    };
    return Begin(services, context, names.Within(parse), false);
  }
  body["messages"] = Json::array();
  if (system) body["messages"].push_back({{"role", "system"}, {"content", *system}});
  const Json text(*prompt);
  const std::string last = ItemPath("messages", body["messages"].size());
  names.Add("messages", "prompt");
  body["messages"].push_back(
      {{"role", "user"},
       {"content", has_pictures ? WithPictures(*images, text, last, "images", names) : text}});
  Begin(services, context, ParseChat(body, services, context, names), false);
}

/// Errors in Ollama's form.
template <void (*answer)(Services&, const http::Request&, const Context&)>
void ForOllama(Services& services, http::Request request, const Context& context) {
  try {
    answer(services, request, context);
  } catch (...) {
    const openai::ApiError error = context.ErrorOf(std::current_exception());
    services.metrics.AddRefused(error.status);
    context.SendError(error, OllamaError(error));
  }
}

void ListTags(Services& services, http::Request, const Context& context) {
  JsonWriter out;
  out.Open('{').Key("models").Open('[');
  for (const ListedModel& model : services.models()) {
    out.Open('{').Key("name").String(model.name).Key("model").String(model.name);
    out.Key("modified_at").String(IsoTime());
    out.Key("size").Integer(static_cast<int64_t>(model.file_bytes));
    out.Key("digest").String(model.fingerprint);
    out.Key("details").Open('{').Key("family").String(model.family).Close('}').Close('}');
  }
  out.Close(']').Close('}');
  context.Send(200, out.Take());
}

constexpr std::array kOllamaRoutes = {
    Route{"POST", "/api/chat", ForOllama<OllamaChat>, OllamaError},
    Route{"POST", "/api/generate", ForOllama<OllamaGenerate>, OllamaError},
    Route{"GET", "/api/tags", ListTags, OllamaError},
};

}  // namespace

std::span<const Route> OllamaRoutes() { return kOllamaRoutes; }

}  // namespace oort::serve
