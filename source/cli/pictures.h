// SPDX-License-Identifier: MIT
// Pictures for the models of commands.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "oort/picture_reader.h"

namespace oort::cli {

/// Reads files of pictures for a model, as a server and batches take it; empty where the model
/// reads none.
inline std::function<std::shared_ptr<const Picture>(std::span<const std::byte>)> PictureReading(
    const std::shared_ptr<const LanguageModel>& model) {
  if (model == nullptr || model->picture_format() == nullptr) return {};
  const auto reader = std::make_shared<PictureReader>(model);
  return [reader](std::span<const std::byte> file) { return reader->Read(file); };
}

}  // namespace oort::cli
