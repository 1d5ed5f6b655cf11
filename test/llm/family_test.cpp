// SPDX-License-Identifier: MIT
// Tiny models of every family in every format give the logits of transformers; see
// test/checkpoints/make_checkpoints.py.
#include <gtest/gtest.h>

#include <algorithm>

#include "kit/files.h"
#include "kit/paths.h"
#include "llm/expect_logits.h"
#include "oort/engine.h"

namespace oort {
namespace {

const std::filesystem::path kTinyModels = TestData() / "checkpoints";

using testing::ExpectLogits;

struct FamilyFile {
  std::string answer;
  std::string file;
};
void PrintTo(const FamilyFile& file, std::ostream* out) { *out << file.file; }

class TinyFamily : public ::testing::TestWithParam<FamilyFile> {};

TEST_P(TinyFamily, GivesTheLogitsOfTransformers) {
  const auto [name, file] = GetParam();
  const json::Json answer = json::Parse(testing::FileBytes(kTinyModels / (name + ".json")), name);
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

/// Several requests side by side answer with the tokens that transformers takes greedily.
TEST_P(TinyFamily, AnswersAsTransformers) {
  const auto [name, file] = GetParam();
  const json::Json answer = json::Parse(testing::FileBytes(kTinyModels / (name + ".json")), name);
  if (!answer.contains("answers")) return;  // logits alone
  const auto model = LanguageModel::Load(kTinyModels / file, {.exact = true});
  EngineOptions options;
  options.kv = KvType::kF32;
  Engine engine(model, options);
  std::vector<int64_t> ids;
  for (const json::Json& item : answer["answers"]) {
    GenerateRequest request;
    request.prompt = item["prompt"].get<std::vector<int32_t>>();
    request.max_tokens = static_cast<int64_t>(item["tokens"].size());
    request.ignore_end = true;
    request.sampling.temperature = 0;
    ids.push_back(engine.Submit(std::move(request)));
  }
  while (engine.Step()) {
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(engine.Take(ids[i])->tokens,
              answer["answers"][i]["tokens"].get<std::vector<int32_t>>())
        << "request " << i;
  }
}

std::vector<FamilyFile> TinyFiles() {
  std::vector<FamilyFile> files = {{"llama2c_v0", "llama2c_v0.bin"},
                                   {"llama2c_v1", "llama2c_v1.bin"},
                                   {"llama2c_v2", "llama2c_v2.bin"},
                                   {"llama2c_v3", "llama2c_v3.bin"},
                                   {"gemma3n_text", "gemma3n"},
                                   {"llama4_text", "llama4"},
                                   {"bamba", "bamba"},
                                   {"falcon_h1_norm", "falcon_h1_norm"},
                                   {"qwen3_5_moe_text", "qwen3_5_moe"},
                                   {"qwen3_5_moe_text", "qwen3_5_moe_text"},
                                   {"qwen3_5_text", "qwen3_5_text"}};
  for (const char* family : {"cohere",
                             "deepseek_v2",
                             "deepseek_v2_groups",
                             "deepseek_v3",
                             "falcon",
                             "falcon_new",
                             "falcon_h1",
                             "gemma",
                             "gemma2",
                             "gemma3_text",
                             "gemma3n_text",
                             "gpt2",
                             "gpt_neox",
                             "gpt_oss",
                             "gpt_oss_mxfp4",
                             "granite",
                             "granitemoehybrid",
                             "granitemoehybrid_dense",
                             "llama",
                             "llama4_text_plain",
                             "llama4_text",
                             "mamba2",
                             "mamba2_tied",
                             "mistral",
                             "mixtral",
                             "olmo2",
                             "olmoe",
                             "phi",
                             "phi3",
                             "qwen2",
                             "qwen2_moe",
                             "qwen3",
                             "qwen3_moe",
                             "qwen3_next",
                             "smollm3",
                             "stablelm",
                             "stablelm_parallel",
                             "starcoder2"}) {
    files.push_back({family, family});
    files.push_back({family, std::string(family) + ".gguf"});
  }
  return files;
}

INSTANTIATE_TEST_SUITE_P(Files, TinyFamily, ::testing::ValuesIn(TinyFiles()), [](const auto& item) {
  std::string name = item.param.file;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace oort
