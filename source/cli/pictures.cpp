// SPDX-License-Identifier: MIT
#include "cli/pictures.h"

#include <utility>

#include "text/json.h"

namespace oort::cli {

EncodedTalk EncodeTalk(const LanguageModel& model, std::span<const Said> messages) {
  EncodedTalk talk;
  json::OrderedJson list = json::OrderedJson::array();
  for (const Said& said : messages) {
    json::OrderedJson content = said.text;
    if (!said.pictures.empty()) {
      content = json::OrderedJson::array();
      for (const auto& picture : said.pictures) {
        content.push_back({{"type", "image"}});
        talk.pictures.push_back(picture);
      }
      content.push_back({{"type", "text"}, {"text", said.text}});
    }
    list.push_back({{"role", said.role}, {"content", std::move(content)}});
  }
  ChatInputs inputs;
  inputs.messages = list.dump();
  talk.tokens = model.EncodeChat(inputs, "default", {}, talk.pictures);
  return talk;
}

std::function<std::shared_ptr<const Picture>(std::span<const std::byte>)> PictureReading(
    const std::shared_ptr<const LanguageModel>& model) {
  if (model == nullptr || model->picture_format() == nullptr) return {};
  const auto reader = std::make_shared<PictureReader>(model);
  return [reader](std::span<const std::byte> file) { return reader->Read(file); };
}

}  // namespace oort::cli
