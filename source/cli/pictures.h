// SPDX-License-Identifier: MIT
// Pictures in what users say to a model.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oort/picture_reader.h"

namespace oort::cli {

using Pictures = std::vector<std::shared_ptr<const Picture>>;

/// A message, with pictures before its text.
struct Said {
  std::string role, text;
  Pictures pictures = {};
};

/// A conversation as tokens, and the pictures that these have places for.
struct EncodedTalk {
  std::vector<int32_t> tokens;
  Pictures pictures;
};
EncodedTalk EncodeTalk(const LanguageModel& model, std::span<const Said> messages);

/// Reads files of pictures for a model, as a server and batches take it; empty where the model
/// reads none.
std::function<std::shared_ptr<const Picture>(std::span<const std::byte>)> PictureReading(
    const std::shared_ptr<const LanguageModel>& model);

}  // namespace oort::cli
