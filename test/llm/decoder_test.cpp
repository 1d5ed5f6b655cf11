// SPDX-License-Identifier: MIT
// Decoders in their fast mode, in batches and with their cache; family_test.cpp holds the exact
// mode against transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "text/json.h"

namespace oort {
namespace {

const std::filesystem::path kDecoders = TestData() / "checkpoints";

struct DecoderCase {
  std::string name;  ///< of the answers
  std::string file;
};

void PrintTo(const DecoderCase& decoder, std::ostream* out) { *out << decoder.file; }

std::vector<DecoderCase> DecoderCases() {
  std::vector<DecoderCase> cases;
  for (const char* family :
       {"llama",       "mistral", "qwen2",     "qwen3",      "gemma",       "gemma2",
        "phi3",        "gpt2",    "cohere",    "falcon_new", "gemma3_text", "gemma3n_text",
        "gpt_neox",    "granite", "olmo2",     "phi",        "smollm3",     "stablelm_parallel",
        "starcoder2",  "mixtral", "qwen2_moe", "qwen3_moe",  "deepseek_v3", "gpt_oss",
        "llama4_text", "olmoe"}) {
    cases.push_back({family, family});
    cases.push_back({family, std::string(family) + ".gguf"});
  }
  for (const char* version : {"llama2c_v0", "llama2c_v1", "llama2c_v2"}) {
    cases.push_back({version, std::string(version) + ".bin"});
  }
  return cases;
}

struct DecoderAnswers {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> logits;
  /// Frequencies change where a sequence gets long: then it matters in which pieces it is read.
  bool whole_only = false;
};

DecoderAnswers AnswersOf(const std::string& name) {
  const json::Json json = json::Parse(testing::FileBytes(kDecoders / (name + ".json")), name);
  return {json["tokens"].get<std::vector<int32_t>>(),
          json["logits"].get<std::vector<std::vector<float>>>(), json.contains("short_tokens")};
}

std::shared_ptr<const LanguageModel> LoadDecoder(const std::string& file, bool exact = true) {
  LanguageModelOptions options;
  options.exact = exact;
  return LanguageModel::Load(kDecoders / file, options);
}

/// Logits of all tokens, read in pieces of `chunk`.
std::vector<float> LogitsOf(DecoderRunner& runner, std::span<const int32_t> tokens, size_t chunk) {
  CachedSequence sequence;
  std::vector<float> logits;
  for (size_t i = 0; i < tokens.size(); i += chunk) {
    const StepItem item{&sequence, tokens.subspan(i, std::min(chunk, tokens.size() - i)),
                        StepItem::kAll};
    const std::span<const float> part = runner.Step({&item, 1});
    logits.insert(logits.end(), part.begin(), part.end());
  }
  sequence = {};
  return logits;
}

void ExpectLogits(const std::vector<float>& got, const DecoderAnswers& answers, float tolerance) {
  const size_t width = answers.logits[0].size();
  ASSERT_EQ(got.size(), answers.logits.size() * width);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], answers.logits[i / width][i % width], tolerance)
        << "token " << i / width << ", logit " << i % width;
  }
}

class Decoder : public ::testing::TestWithParam<DecoderCase> {};

TEST_P(Decoder, IsNearThemWhereItIsFast) {
  const DecoderAnswers answers = AnswersOf(GetParam().name);
  DecoderRunner runner(LoadDecoder(GetParam().file, false), KvType::kF16, 64, 2);
  float most = 0;
  for (const auto& row : answers.logits) {
    for (float logit : row) most = std::max(most, std::fabs(logit));
  }
  for (size_t chunk : {answers.tokens.size(), size_t{1}}) {
    SCOPED_TRACE(chunk);
    if (answers.whole_only && chunk != answers.tokens.size()) continue;
    ExpectLogits(LogitsOf(runner, answers.tokens, chunk), answers, 0.06f * most);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Decoder, ::testing::ValuesIn(DecoderCases()),
                         [](const ::testing::TestParamInfo<DecoderCase>& given) {
                           std::string name = given.param.file;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(DecoderRunner, GivesEachSequenceOfABatchWhatItGetsAlone) {
  const auto model = LoadDecoder("llama.gguf", false);
  DecoderRunner runner(model, KvType::kF16, 256, 2);
  const std::vector<std::vector<int32_t>> prompts = {{3, 17, 29}, {5}, {5, 38, 11, 0, 22}, {31, 8}};
  const std::vector<int32_t> next = {7, 9, 1, 30};
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < prompts.size(); ++i) {
    CachedSequence sequence;
    const StepItem prompt{&sequence, prompts[i], StepItem::kNone};
    EXPECT_TRUE(runner.Step({&prompt, 1}).empty());
    const StepItem token{&sequence, {&next[i], 1}};
    const std::span<const float> logits = runner.Step({&token, 1});
    alone.emplace_back(logits.begin(), logits.end());
    sequence = {};
  }
  std::vector<CachedSequence> sequences(prompts.size());
  std::vector<StepItem> items;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const StepItem prompt{&sequences[i], prompts[i], StepItem::kNone};
    runner.Step({&prompt, 1});
    items.push_back({&sequences[i], {&next[i], 1}});
  }
  const std::span<const float> together = runner.Step(items);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t width = alone[i].size();
    EXPECT_TRUE(std::equal(alone[i].begin(), alone[i].end(),
                           together.begin() + static_cast<long>(i * width)))
        << "sequence " << i;
  }
}

TEST(DecoderRunner, KeepsKeysAndValuesInEightBits) {
  const DecoderAnswers answers = AnswersOf("llama");
  DecoderRunner runner(LoadDecoder("llama"), KvType::kInt8, 64, 1);
  const std::vector<float> got = LogitsOf(runner, answers.tokens, 1);
  const size_t width = answers.logits[0].size();
  float worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::fabs(got[i] - answers.logits[i / width][i % width]));
  }
  EXPECT_LT(worst, 0.1f);
  EXPECT_GT(worst, 1e-5f);  // else nothing was rounded
}

TEST(DecoderRunner, SaysWhichTokenIsTheArgmax) {
  const auto model = LoadDecoder("llama");
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  const DecoderAnswers answers = AnswersOf("llama");
  const size_t vocabulary = static_cast<size_t>(model->info().vocabulary);
  for (const size_t chunk : {answers.tokens.size(), size_t{3}, size_t{1}}) {
    CachedSequence with, without;
    for (size_t i = 0; i < answers.tokens.size(); i += chunk) {
      const auto tokens = std::span<const int32_t>(answers.tokens)
                              .subspan(i, std::min(chunk, answers.tokens.size() - i));
      const StepItem seen{&with, tokens, StepItem::kAll}, unseen{&without, tokens, StepItem::kAll};
      const std::span<const float> logits = runner.Step({&seen, 1});
      std::vector<int32_t> want;
      for (size_t row = 0; row < tokens.size(); ++row) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * vocabulary);
        const auto end = begin + static_cast<std::ptrdiff_t>(vocabulary);
        want.push_back(static_cast<int32_t>(std::max_element(begin, end) - begin));
      }
      const std::span<const int32_t> got = runner.StepArgmax({&unseen, 1});
      EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), want);
    }
    with = {};
    without = {};
  }
}

TEST(DecoderRunner, TakesBlocksAndGivesThemBack) {
  DecoderRunner runner(LoadDecoder("llama"), KvType::kF32, 48, 1);
  ASSERT_EQ(runner.cache().blocks(), 3);
  const std::vector<int32_t> tokens(40, 3);
  CachedSequence first, second;
  const StepItem fits{&first, tokens, StepItem::kLast};
  EXPECT_EQ(runner.Step({&fits, 1}).size(), 40u);
  EXPECT_EQ(runner.pool().free_blocks(), 0);
  const StepItem none_left{&second, std::span<const int32_t>(tokens).first(1), StepItem::kLast};
  testing::ExpectThrows([&] { runner.Step({&none_left, 1}); }, ErrorCode::kLimit, "larger context");
  EXPECT_EQ(second.length, 0);
  first = {};
  EXPECT_EQ(runner.pool().free_blocks(), 3);
  EXPECT_EQ(runner.Step({&none_left, 1}).size(), 40u);
}

}  // namespace
}  // namespace oort
