// SPDX-License-Identifier: MIT
#include "c_api/model.h"

#include <algorithm>
#include <cstring>
#include <stop_token>

#include "c_api/border.h"
#include "c_api/options.h"
#include "text/json.h"

namespace oort::c_api {
namespace {

/// A copy that oort_free frees.
void GiveTokens(const std::vector<int32_t>& given, int32_t** tokens, size_t* count) {
  auto* copy = static_cast<int32_t*>(AllocateForCaller(given.size(), sizeof(int32_t)));
  std::copy(given.begin(), given.end(), copy);
  *tokens = copy;
  *count = given.size();
}

/// What the results of a function are before it has any.
template <typename Element>
void Clear(Element** results, size_t* count, std::string_view what) {
  if (count != nullptr) *count = 0;
  Need(results, what);
  *results = nullptr;
}

std::string_view View(const char* text, size_t length, std::string_view what) {
  if (length > 0) Need(text, what);
  return {text == nullptr ? "" : text, length};
}

openai::ToolUse ToolUseOf(const oort_options* options) {
  const Settings settings(options);
  openai::ToolUse use{settings.Text("tools").value_or(""),
                      settings.Text("tool_choice").value_or(""),
                      settings.Flag("parallel_tool_calls").value_or(true)};
  CheckToolUse(use);
  return use;
}

ChatInputs InputsOf(const LanguageModel& model, const oort_chat& chat,
                    const oort_options* options) {
  const Settings settings(options);
  ChatInputs inputs;
  inputs.messages = "[";
  for (const std::string& message : chat.messages) {
    if (inputs.messages.size() > 1) inputs.messages += ",";
    inputs.messages += message;
  }
  inputs.messages += "]";
  inputs.documents = settings.Text("documents").value_or("");
  inputs.variables = settings.Text("template_variables").value_or("");
  inputs.add_generation_prompt = settings.Flag("add_generation_prompt").value_or(true);
  inputs.continue_final_message = settings.Flag("continue_final_message").value_or(false);
  PutTools(model, ToolUseOf(options), inputs);
  return inputs;
}

/// A message as JSON, with so many pictures before its text.
std::string MessageOf(std::string_view role, std::string_view text, size_t pictures) {
  const ChatMessage message{std::string(role), std::string(text)};
  const std::string list = ToJson({&message, 1});
  const std::string plain = list.substr(1, list.size() - 2);  // without the brackets
  if (pictures == 0) return plain;
  json::OrderedJson object = json::OrderedJson::parse(plain);
  json::OrderedJson content = json::OrderedJson::array();
  for (size_t i = 0; i < pictures; ++i) content.push_back({{"type", "image"}});
  content.push_back({{"type", "text"}, {"text", std::move(object["content"])}});
  object["content"] = std::move(content);
  return object.dump();
}

std::string TemplateOf(const oort_options* options) {
  return Settings(options).Text("chat_template").value_or("default");
}

}  // namespace

std::vector<int32_t> EncodeText(const LanguageModel& model, std::string_view text,
                                const oort_options* options) {
  const Settings settings(options);
  EncodeOptions encode;
  encode.add_special = settings.Flag("add_special").value_or(encode.add_special);
  encode.parse_special = settings.Flag("parse_special").value_or(encode.parse_special);
  return model.tokenizer().Encode(text, encode);
}

EncodedChat EncodeChat(const std::shared_ptr<const LanguageModel>& model, PictureShelf& shelf,
                       const oort_chat& chat, const oort_options* options) {
  if (chat.placed < chat.pictures.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the chat ends with a picture: add the message that it belongs to");
  }
  EncodedChat encoded;
  for (const ChatPicture& picture : chat.pictures) {
    encoded.pictures.push_back(picture(model, shelf));
  }
  encoded.tokens =
      model->EncodeChat(InputsOf(*model, chat, options), TemplateOf(options), {}, encoded.pictures);
  encoded.tools = ToolUseOf(options);
  return encoded;
}

}  // namespace oort::c_api

using oort::c_api::AtBorder;
using oort::c_api::Need;

oort_code oort_model_load(const char* path, const oort_options* options, oort_model** model,
                          oort_error** error) {
  return AtBorder(error, [&] {
    Need(model, "model");
    *model = nullptr;
    Need(path, "path");
    std::stop_source stop;
    auto made = std::make_unique<oort_model>();
    made->model = oort::LanguageModel::Load(path, oort::c_api::ModelOptionsOf(options, stop));
    *model = made.release();
  });
}

const char* oort_model_family(const oort_model* model) {
  return model == nullptr ? "" : model->model->info().family.c_str();
}

oort_code oort_model_number(const oort_model* model, const char* name, int64_t* value,
                            oort_error** error) {
  return AtBorder(error, [&] {
    Need(value, "value");
    *value = 0;
    Need(model, "model");
    Need(name, "name");
    const oort::LanguageModelInfo& info = model->model->info();
    const std::pair<const char*, int64_t> numbers[] = {
        {"layers", info.layers},
        {"hidden", info.hidden},
        {"heads", info.heads},
        {"kv_heads", info.kv_heads},
        {"head_dim", info.head_dim},
        {"vocabulary", info.vocabulary},
        {"context", info.context},
        {"weight_bytes", static_cast<int64_t>(info.weight_bytes)},
        {"step_bytes", static_cast<int64_t>(info.step_bytes)},
        {"file_bytes", static_cast<int64_t>(info.file_bytes)}};
    *value = oort::c_api::NumberOf<int64_t>(numbers, name);
  });
}

oort_code oort_model_encode(const oort_model* model, const char* text, size_t length,
                            const oort_options* options, int32_t** tokens, size_t* count,
                            oort_error** error) {
  return AtBorder(error, [&] {
    oort::c_api::Clear(tokens, count, "tokens");
    Need(count, "count");
    Need(model, "model");
    const std::string_view view = oort::c_api::View(text, length, "text");
    oort::c_api::GiveTokens(oort::c_api::EncodeText(*model->model, view, options), tokens, count);
  });
}

oort_code oort_model_decode(const oort_model* model, const int32_t* tokens, size_t count,
                            const oort_options* options, char** text, size_t* length,
                            oort_error** error) {
  return AtBorder(error, [&] {
    oort::c_api::Clear(text, length, "text");
    Need(model, "model");
    if (count > 0) Need(tokens, "tokens");
    oort::DecodeOptions decode;
    const auto skip = oort::c_api::Settings(options).Flag("skip_special");
    decode.skip_special = skip.value_or(decode.skip_special);
    oort::c_api::GiveText(model->model->tokenizer().Decode({tokens, count}, decode), text, length);
  });
}

int oort_model_is_end(const oort_model* model, int32_t token) {
  return model != nullptr && model->model->IsEnd(token) ? 1 : 0;
}

void oort_model_free(oort_model* model) { delete model; }

oort_chat* oort_chat_new(void) {
  return oort::c_api::Quietly(static_cast<oort_chat*>(nullptr), [] { return new oort_chat; });
}

oort_code oort_chat_add(oort_chat* chat, const char* role, const char* text, size_t length,
                        oort_error** error) {
  return AtBorder(error, [&] {
    Need(chat, "chat");
    Need(role, "role");
    const std::string_view view = oort::c_api::View(text, length, "text");
    chat->messages.push_back(
        oort::c_api::MessageOf(role, view, chat->pictures.size() - chat->placed));
    chat->placed = chat->pictures.size();
  });
}

oort_code oort_chat_add_json(oort_chat* chat, const char* message, size_t length,
                             oort_error** error) {
  return AtBorder(error, [&] {
    Need(chat, "chat");
    const std::string_view view = oort::c_api::View(message, length, "message");
    const oort::json::OrderedJson parsed = oort::json::ParseOrdered(view, "the message");
    if (!parsed.is_object()) {
      throw oort::Error(oort::ErrorCode::kInvalidArgument, "a message is a JSON object");
    }
    chat->messages.emplace_back(view);
    chat->placed = chat->pictures.size();  // which parts have them shows when the chat is encoded
  });
}

void oort_chat_free(oort_chat* chat) { delete chat; }

oort_code oort_model_encode_chat(const oort_model* model, const oort_chat* chat,
                                 const oort_options* options, int32_t** tokens, size_t* count,
                                 oort_error** error) {
  return AtBorder(error, [&] {
    oort::c_api::Clear(tokens, count, "tokens");
    Need(count, "count");
    Need(model, "model");
    Need(chat, "chat");
    const oort::c_api::EncodedChat encoded =
        oort::c_api::EncodeChat(model->model, *model->shelf, *chat, options);
    oort::c_api::GiveTokens(encoded.tokens, tokens, count);
  });
}

oort_code oort_model_format_chat(const oort_model* model, const oort_chat* chat,
                                 const oort_options* options, char** text, size_t* length,
                                 oort_error** error) {
  return AtBorder(error, [&] {
    oort::c_api::Clear(text, length, "text");
    Need(model, "model");
    Need(chat, "chat");
    const std::string formatted = model->model->FormatChat(
        oort::c_api::InputsOf(*model->model, *chat, options), oort::c_api::TemplateOf(options));
    oort::c_api::GiveText(formatted, text, length);
  });
}
