// SPDX-License-Identifier: MIT
// Tiny models of every family in every format give the logits of transformers; see
// test/checkpoints/make_checkpoints.py.
#include <gtest/gtest.h>

#include <algorithm>

#include "kit/files.h"
#include "llm/expect_logits.h"

namespace oort {
namespace {

const std::filesystem::path kTinyModels = std::filesystem::path(OORT_TEST_DATA) / "checkpoints";

using testing::ExpectLogits;

struct FamilyFile {
  const char* answer;
  const char* file;
};
void PrintTo(const FamilyFile& file, std::ostream* out) { *out << file.file; }

class TinyFamily : public ::testing::TestWithParam<FamilyFile> {};

TEST_P(TinyFamily, GivesTheLogitsOfTransformers) {
  const auto [name, file] = GetParam();
  const json::Json answer =
      json::Parse(testing::FileBytes(kTinyModels / (std::string(name) + ".json")), name);
  const auto model = LanguageModel::Load(kTinyModels / file, {.exact = true});
  const auto tokens = answer["tokens"].get<std::vector<int32_t>>();
  for (const size_t step : {tokens.size(), size_t{5}, size_t{1}}) {
    SCOPED_TRACE(step);
    ExpectLogits(model, tokens, answer["logits"], step);
  }
  if (!answer.contains("short_tokens")) return;
  // longrope turns all positions of a long sequence otherwise.
  const auto few = answer["short_tokens"].get<std::vector<int32_t>>();
  ExpectLogits(model, few, answer["short_logits"], 2);
}

INSTANTIATE_TEST_SUITE_P(
    Files, TinyFamily,
    ::testing::Values(FamilyFile{"llama", "llama"}, FamilyFile{"llama", "llama.gguf"},
                      FamilyFile{"mistral", "mistral"}, FamilyFile{"mistral", "mistral.gguf"},
                      FamilyFile{"qwen2", "qwen2"}, FamilyFile{"qwen2", "qwen2.gguf"},
                      FamilyFile{"qwen3", "qwen3"}, FamilyFile{"qwen3", "qwen3.gguf"},
                      FamilyFile{"gemma", "gemma"}, FamilyFile{"gemma", "gemma.gguf"},
                      FamilyFile{"gemma2", "gemma2"}, FamilyFile{"gemma2", "gemma2.gguf"},
                      FamilyFile{"phi3", "phi3"}, FamilyFile{"phi3", "phi3.gguf"},
                      FamilyFile{"gpt2", "gpt2"}, FamilyFile{"gpt2", "gpt2.gguf"},
                      FamilyFile{"llama2c_v0", "llama2c_v0.bin"},
                      FamilyFile{"llama2c_v1", "llama2c_v1.bin"},
                      FamilyFile{"llama2c_v2", "llama2c_v2.bin"}),
    [](const auto& item) {
      std::string name = item.param.file;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

}  // namespace
}  // namespace oort
