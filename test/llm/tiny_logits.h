// SPDX-License-Identifier: MIT
// What tiny models say of every token of a text, in f32: enough to tell whether two are the same.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "llm/decoder_runner.h"

namespace oort {

inline std::vector<float> TinyLogits(const std::shared_ptr<const LanguageModel>& model) {
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  const std::vector<int32_t> tokens = {3, 17, 29, 5, 5, 38, 11, 0, 22, 31, 8, 14};
  CachedSequence sequence;
  const StepItem item{&sequence, tokens, StepItem::kAll};
  const auto logits = runner.Step({&item, 1});
  std::vector<float> copy(logits.begin(), logits.end());
  sequence = {};
  return copy;
}

inline std::vector<float> TinyLogits(const std::filesystem::path& path) {
  return TinyLogits(LanguageModel::Load(path, {.exact = true}));
}

}  // namespace oort
