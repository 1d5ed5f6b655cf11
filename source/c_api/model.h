// SPDX-License-Identifier: MIT
// What model and engine share of language models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oort/c_language.h"
#include "oort/language_model.h"
#include "openai/answer_parts.h"

namespace oort {
class PictureReader;
}

namespace oort::c_api {

/// Reads the pictures of chats for a model; made with the first one.
struct PictureShelf {
  std::mutex mutex;  ///< of `reader`
  std::shared_ptr<PictureReader> reader;
};

/// A picture of a chat, for whatever model answers that. What decodes pictures is linked into a
/// static program only where it calls what makes these.
using ChatPicture = std::function<std::shared_ptr<const Picture>(
    const std::shared_ptr<const LanguageModel>&, PictureShelf&)>;

}  // namespace oort::c_api

struct oort_model {
  std::shared_ptr<const oort::LanguageModel> model;
  std::shared_ptr<oort::c_api::PictureShelf> shelf = std::make_shared<oort::c_api::PictureShelf>();
};

struct oort_chat {
  std::vector<std::string> messages;  ///< a JSON object each
  std::vector<oort::c_api::ChatPicture> pictures;
  size_t placed = 0;  ///< of these, the ones that belong to messages
};

namespace oort::c_api {

/// A conversation as a request of an engine has it.
struct EncodedChat {
  std::vector<int32_t> tokens;
  std::vector<std::shared_ptr<const Picture>> pictures;
  std::optional<openai::ToolUse> tools;  ///< of a chat: what its answers may call
};

std::vector<int32_t> EncodeText(const LanguageModel& model, std::string_view text,
                                const oort_options* options);
EncodedChat EncodeChat(const std::shared_ptr<const LanguageModel>& model, PictureShelf& shelf,
                       const oort_chat& chat, const oort_options* options);

/// The number of that name; throws kInvalidArgument with those that there are.
template <typename Number>
Number NumberOf(std::span<const std::pair<const char*, Number>> numbers, std::string_view name) {
  std::string names;
  for (const auto& [known, value] : numbers) {
    if (known == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "there is no number '" + std::string(name) + "' here, but " + names);
}

}  // namespace oort::c_api
