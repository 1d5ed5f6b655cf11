// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "llm/decoder_runner.h"

namespace oort {

/// What a tiny model says of every token of a fixed text, in f32.
inline std::vector<float> TinyLogits(const std::filesystem::path& path) {
  const auto model = LanguageModel::Load(path, {.exact = true});
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  const std::vector<int32_t> tokens = {3, 17, 29, 5, 5, 38, 11, 0, 22, 31, 8, 14};
  CachedSequence sequence;
  const StepItem item{&sequence, tokens, StepItem::kAll};
  const auto logits = runner.Step({&item, 1});
  std::vector<float> copy(logits.begin(), logits.end());
  sequence = {};
  return copy;
}

}  // namespace oort
