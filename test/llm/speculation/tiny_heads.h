// SPDX-License-Identifier: MIT
// Random heads that guess, in the form in which Medusa's scripts write them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "kit/files.h"
#include "kit/paths.h"
#include "kit/peft_adapter.h"
#include "oort/language_model.h"

namespace oort::testing {

struct TinyHeads {
  Matrices tensors;
  std::map<std::string, bool> vectors;
  nlohmann::json config;

  TinyHeads(int64_t heads, int64_t layers, int64_t hidden, int64_t vocabulary, unsigned seed = 1)
      : config({{"medusa_num_heads", heads}, {"medusa_num_layers", layers}}) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < heads; ++i) {
      const std::string head = std::to_string(i) + ".";
      for (int64_t j = 0; j < layers; ++j) {
        const std::string linear = head + std::to_string(j) + ".linear.";
        tensors[linear + "weight"] = RandomMatrix(hidden, hidden, random);
        tensors[linear + "bias"] = RandomMatrix(1, hidden, random);
        vectors[linear + "bias"] = true;
      }
      tensors[head + std::to_string(layers) + ".weight"] = RandomMatrix(vocabulary, hidden, random);
    }
  }

  void Write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    WriteFile(folder / "config.json", config.dump());
    WriteFile(folder / "medusa_lm_head.safetensors", SafetensorsOf(tensors, vectors));
  }
};

/// A model of test/checkpoints with so many heads of its sizes.
inline std::shared_ptr<const LanguageModel> LoadWithHeads(const std::string& file,
                                                          LanguageModelOptions options,
                                                          int64_t heads = 3, int64_t layers = 1) {
  const std::filesystem::path path = TestData() / "checkpoints" / file;
  const LanguageModelInfo info = LanguageModel::Load(path)->info();
  const TemporaryFolder folder;
  TinyHeads(heads, layers, info.hidden, info.vocabulary).Write(folder.path());
  options.draft_heads = folder.path();
  return LanguageModel::Load(path, options);
}

}  // namespace oort::testing
