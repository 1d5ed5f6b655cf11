// SPDX-License-Identifier: MIT
// A folder as it is downloaded from the Hub.
#include <algorithm>

#include "core/problems.h"
#include "parser/checkpoint/contents.h"
#include "parser/huggingface/config.h"
#include "parser/huggingface/folder.h"
#include "parser/huggingface/tensors.h"
#include "parser/huggingface/vision.h"

namespace oort {
namespace huggingface {
namespace {

constexpr std::string_view kTemplateEnding = ".jinja";

/// A token or a list of them, as eos_token_id can be.
bool ReadEndTokens(const json::Object& file, CheckpointContents& contents) {
  const json::Json* value = file.Find("eos_token_id");
  if (value == nullptr) return false;
  const json::Json list = value->is_array() ? *value : json::Json::array({*value});
  for (const json::Json& token : list) {
    if (!token.is_number_integer()) {
      file.ThrowWrongType("eos_token_id", "a token or a list of tokens");
    }
    AddEndToken(contents, token.get<int64_t>());
  }
  return true;
}

void ReadGeneration(const Folder& folder, const json::Object& config,
                    CheckpointContents& contents) {
  if (const auto text = folder.Text("generation_config.json")) {
    const json::Json generation = json::Parse(*text, "generation_config.json");
    if (ReadEndTokens(json::Object(generation, "generation_config.json"), contents)) return;
  }
  ReadEndTokens(config, contents);
}

void ReadTokenizerFiles(const Folder& folder, TokenizerSource& tokenizer) {
  tokenizer.config = folder.Text("tokenizer_config.json").value_or("");
  if (auto json = folder.Text("tokenizer.json")) {
    tokenizer.kind = TokenizerSource::Kind::kJson;
    tokenizer.bytes = std::move(*json);
    return;
  }
  for (const char* name : {"tokenizer.model", "spiece.model"}) {
    if (auto model = folder.Text(name)) {
      tokenizer.kind = TokenizerSource::Kind::kSentencePiece;
      tokenizer.bytes = std::move(*model);
      return;
    }
  }
}

/// The longest sequence that a config of any family allows.
int64_t ReadContext(const json::Object& config) {
  for (const char* key : {"max_position_embeddings", "n_positions", "n_ctx"}) {
    if (const auto context = config.Integer(key); context && *context > 0) return *context;
  }
  return 0;
}

void AddHubTemplate(CheckpointContents& contents, std::string name, std::string text) {
  RequireUtf8(text, "the chat template " + Quote(name));
  contents.templates.push_back({std::move(name), std::move(text)});
}

/// chat_template of tokenizer_config.json: a text, or a list of them with names.
void ReadConfiguredTemplates(CheckpointContents& contents) {
  const std::string what = "tokenizer_config.json";
  if (contents.tokenizer.config.empty()) return;
  const json::Json config = json::Parse(contents.tokenizer.config, what);
  const json::Object file(config, what);
  const json::Json* value = file.Find("chat_template");
  if (value == nullptr) return;
  if (value->is_string()) return AddHubTemplate(contents, "default", value->get<std::string>());
  if (!value->is_array()) file.ThrowWrongType("chat_template", "a text or a list of templates");
  for (const json::Json& item : *value) {
    const json::Object entry(item, what + ": an entry of 'chat_template'");
    const auto name = entry.Text("name"), text = entry.Text("template");
    if (!name || !text) entry.ThrowWrongType("template", "a text beside a name");
    AddHubTemplate(contents, std::string(*name), std::string(*text));
  }
}

void ReadTemplates(const Folder& folder, CheckpointContents& contents) {
  auto text = folder.Text("chat_template.jinja");
  if (!text) return ReadConfiguredTemplates(contents);
  AddHubTemplate(contents, "default", std::move(*text));
  const auto more = folder.Inner("additional_chat_templates");
  if (!more) return;
  for (const std::string& file : more->Names(kTemplateEnding)) {
    AddHubTemplate(contents, file.substr(0, file.size() - kTemplateEnding.size()),
                   *more->Text(file));
  }
}

}  // namespace
}  // namespace huggingface

CheckpointContents ReadHuggingFace(const std::filesystem::path& path) {
  using namespace huggingface;
  const Folder folder(path);
  const auto text = folder.Text("config.json");
  if (!text) {
    throw Error(ErrorCode::kNotFound,
                Quote(path.string()) + " has no config.json: it is no model's folder");
  }
  const json::Json whole = json::Parse(*text, "config.json");
  const json::Json config = LanguageConfig(whole);
  const json::Object file(config, "config.json");
  CheckpointContents contents;
  contents.config = ReadConfig(file);
  if (FamilyOf(contents.config).vision) {
    contents.vision = std::make_shared<VisionFiles>();
    contents.vision->config =
        ReadVisionConfig(folder, json::Object(whole, "config.json"), contents.config);
  }
  ReadTensors(folder, ReadQuantization(file), contents);
  CheckBiases(ReadBiases(file, FamilyOf(contents.config)), contents.tensors, path.string());
  CheckTensors(contents.config, contents.tensors, path.string());
  ReadGeneration(folder, file, contents);
  ReadTokenizerFiles(folder, contents.tokenizer);
  ReadTemplates(folder, contents);
  return contents;
}

int64_t ReadCompanions(const std::filesystem::path& path, CheckpointContents& contents) {
  using namespace huggingface;
  const Folder folder(path);
  int64_t window = 0;
  json::Json config = json::Json::object();
  if (const auto text = folder.Text("config.json")) config = json::Parse(*text, "config.json");
  const json::Object file(config, "config.json");
  if (const auto family = file.Text("model_type")) contents.config.family = *family;
  contents.config.context = ReadContext(file);
  if (file.Bool("use_sliding_window").value_or(true)) {
    window = std::max<int64_t>(0, file.Integer("sliding_window").value_or(0));
  }
  ReadGeneration(folder, file, contents);
  ReadTokenizerFiles(folder, contents.tokenizer);
  ReadTemplates(folder, contents);
  return window;
}

}  // namespace oort
