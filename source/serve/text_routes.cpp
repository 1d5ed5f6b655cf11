// SPDX-License-Identifier: MIT
// Text, tokens and templates without the model itself.
#include <array>

#include "openai/common_fields.h"
#include "openai/json_writer.h"
#include "openai/tools.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

using openai::Fields;
using openai::Json;
using openai::JsonWriter;

// A field may have vLLM's name, or llama.cpp's.
std::optional<std::string_view> TextOf(Fields& fields, std::string_view name,
                                       std::string_view other) {
  const auto text = fields.Text(name);
  const auto same = fields.Text(other);
  return text ? text : same;
}

bool FlagOf(Fields& fields, std::string_view name, std::string_view other, bool otherwise) {
  const auto flag = fields.Bool(name);
  const auto same = fields.Bool(other);
  return flag ? *flag : same.value_or(otherwise);
}

void Tokenize(Services& services, http::Request request, const Context& context) {
  const Json body = context.TakeBody(request, services.limits);
  Fields fields(body);
  const openai::ServedModel& served = services.served;
  openai::CheckModelName(fields, served.name, served.aliases, served.any_name);
  const Tokenizer& tokenizer = served.model->tokenizer();
  std::vector<int32_t> ids;
  const bool chat = fields.Find("messages") != nullptr;
  const bool special = FlagOf(fields, "add_special_tokens", "add_special", !chat);
  const bool pieces = FlagOf(fields, "return_token_strs", "with_pieces", false);
  if (chat) {
    if (special) fields.Fail("add_special_tokens", "is not for messages: the template has them");
    const openai::ToolFields tools = openai::ReadTools(fields, services.limits);
    std::vector<openai::PictureSource> pictures;
    const ChatInputs inputs =
        openai::ReadChatInputs(fields, *served.model, tools.tools, services.limits, pictures);
    ids = served.model->EncodeChat(inputs, "default", services.limits.chat_template,
                                   openai::ReadPictures(pictures, served));
  } else {
    const auto text = TextOf(fields, "prompt", "content");
    if (!text) fields.Fail("prompt", "is missing, and so are \"content\" and \"messages\"");
    ids = tokenizer.Encode(*text, {.add_special = special, .parse_special = true});
  }
  fields.CheckAllKnown();
  JsonWriter out;
  out.Open('{').Key("count").Integer(static_cast<int64_t>(ids.size()));
  out.Key("max_model_len").Integer(served.context);
  out.Key("tokens").Open('[');
  for (const int32_t id : ids) out.Integer(id);
  out.Close(']');
  if (pieces) {
    out.Key("token_strs").Open('[');
    for (const int32_t id : ids) out.String(tokenizer.Piece(id));
    out.Close(']');
  }
  out.Close('}');
  context.Send(200, out.Take());
}

void Detokenize(Services& services, http::Request request, const Context& context) {
  const Json body = context.TakeBody(request, services.limits);
  Fields fields(body);
  const openai::ServedModel& served = services.served;
  openai::CheckModelName(fields, served.name, served.aliases, served.any_name);
  const Json* list = fields.List("tokens", SIZE_MAX);
  if (list == nullptr) fields.Fail("tokens", "is missing");
  fields.CheckAllKnown();
  const auto vocabulary = static_cast<size_t>(served.model->info().vocabulary);
  const std::vector<int32_t> ids = openai::ReadIds(*list, "tokens", vocabulary);
  const std::string text = served.model->tokenizer().Decode(ids, {.skip_special = false});
  JsonWriter out;
  out.Open('{').Key("prompt").String(text).Key("content").String(text).Close('}');
  context.Send(200, out.Take());
}

void ApplyTemplate(Services& services, http::Request request, const Context& context) {
  const Json body = context.TakeBody(request, services.limits);
  Fields fields(body);
  const openai::ServedModel& served = services.served;
  openai::CheckModelName(fields, served.name, served.aliases, served.any_name);
  const openai::ToolFields tools = openai::ReadTools(fields, services.limits);
  std::vector<openai::PictureSource> pictures;  // the text has a place for each
  const ChatInputs inputs =
      openai::ReadChatInputs(fields, *served.model, tools.tools, services.limits, pictures);
  fields.CheckAllKnown();
  JsonWriter out;
  out.Open('{').Key("prompt");
  out.String(served.model->FormatChat(inputs, "default", services.limits.chat_template));
  out.Close('}');
  context.Send(200, out.Take());
}

constexpr std::array kTextRoutes = {
    Route{"POST", "/tokenize", Tokenize},
    Route{"POST", "/detokenize", Detokenize},
    Route{"POST", "/apply-template", ApplyTemplate},
};

}  // namespace

std::span<const Route> TextRoutes() { return kTextRoutes; }

}  // namespace oort::serve
