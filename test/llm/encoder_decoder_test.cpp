// SPDX-License-Identifier: MIT
// Tiny encoder-decoders give the logits and the greedy answers of transformers; see
// test/checkpoints/make_encoder_decoders.py.
#include "llm/encoder_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "text/json.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kTextModels = TestData() / "checkpoints";

json::Json TextAnswersOf(const std::string& name) {
  return json::Parse(testing::FileBytes(kTextModels / (name + ".json")), name);
}

class TinyEncoderDecoder : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyEncoderDecoder, GivesTheLogitsOfTransformers) {
  const json::Json want = TextAnswersOf(GetParam());
  EncoderDecoder model(kTextModels / GetParam());
  const auto forced = want["forced"].get<std::vector<int32_t>>();
  for (size_t text = 0; text < want["logits"].size(); ++text) {
    model.Read(want["answers"][text]["text"].get<std::vector<int32_t>>());
    for (size_t i = 0; i < forced.size(); ++i) {
      const std::span<const float> logits = model.Step(forced[i]);
      const json::Json& row = want["logits"][text][i];
      ASSERT_EQ(logits.size(), row.size());
      for (size_t j = 0; j < row.size(); ++j) {
        const double number = row[j].get<double>();
        ASSERT_NEAR(logits[j], number, 2e-4 + 2e-5 * std::abs(number))
            << "text " << text << " token " << i << " logit " << j;
      }
    }
  }
}

TEST_P(TinyEncoderDecoder, AnswersAsTransformers) {
  const json::Json want = TextAnswersOf(GetParam());
  EncoderDecoder model(kTextModels / GetParam());
  for (const json::Json& item : want["answers"]) {
    const auto tokens = item["tokens"].get<std::vector<int32_t>>();
    Sampler greedy(SamplingOptions{.temperature = 0});
    const TextAnswer answer = model.Answer(item["text"].get<std::vector<int32_t>>(), greedy,
                                           static_cast<int64_t>(tokens.size()), true);
    EXPECT_EQ(answer.tokens, tokens);
    EXPECT_FALSE(answer.ended);
  }
}

/// Caches grow while an answer is written.
TEST_P(TinyEncoderDecoder, LongAnswersDoNotDependOnWhatWasRead) {
  const json::Json want = TextAnswersOf(GetParam());
  const auto text = want["answers"][2]["text"].get<std::vector<int32_t>>();
  EncoderDecoder model(kTextModels / GetParam(), {.threads = 1});
  Sampler greedy(SamplingOptions{.temperature = 0});
  const int64_t most = std::min<int64_t>(150, model.config().most_tokens());
  const std::vector<int32_t> first = model.Answer(text, greedy, most, true).tokens;
  EXPECT_EQ(static_cast<int64_t>(first.size()), most);
  EXPECT_EQ(model.Answer(text, greedy, most, true).tokens, first);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyEncoderDecoder, ::testing::Values("bart", "t5", "t5_gated"),
                         [](const auto& item) { return std::string(item.param); });

TEST(EncoderDecoder, EndsWhereTheModelDoes) {
  const json::Json want = TextAnswersOf("t5_gated");
  EncoderDecoder model(kTextModels / "t5_gated");
  size_t ended = 0;
  for (const json::Json& item : want["answers"]) {
    auto tokens = item["tokens"].get<std::vector<int32_t>>();
    const auto end = std::ranges::find(tokens, 1);
    const bool ends = end != tokens.end();
    tokens.erase(end, tokens.end());
    Sampler greedy(SamplingOptions{.temperature = 0});
    const TextAnswer answer =
        model.Answer(item["text"].get<std::vector<int32_t>>(), greedy, ends ? 50 : 12);
    EXPECT_EQ(answer.tokens, tokens);
    EXPECT_EQ(answer.ended, ends);
    ended += ends ? 1 : 0;
  }
  EXPECT_GT(ended, 0U);
}

TEST(EncoderDecoder, SaysWhatDoesNotFit) {
  EXPECT_TRUE(IsEncoderDecoder(kTextModels / "bart"));
  EXPECT_FALSE(IsEncoderDecoder(kTextModels / "llama"));
  EXPECT_FALSE(IsEncoderDecoder(kTextModels / "llama.gguf"));
  EncoderDecoder model(kTextModels / "bart");
  ExpectThrows([&] { model.Step(2); }, ErrorCode::kInvalidArgument, "no text was read");
  const std::vector<int32_t> wrong = {40};
  ExpectThrows([&] { model.Read(wrong); }, ErrorCode::kInvalidArgument, "not among the model's 40");
  const std::vector<int32_t> many(65, 3);
  ExpectThrows([&] { model.Read(many); }, ErrorCode::kInvalidArgument, "1 to 64 tokens");
  ExpectThrows([&] { EncoderDecoder(kTextModels / "llama"); }, ErrorCode::kUnsupported,
               "t5, mt5 and bart");
  const testing::TemporaryFolder folder;
  std::filesystem::copy(kTextModels / "t5", folder.path() / "model");
  json::Json config = json::Parse(testing::FileBytes(kTextModels / "t5" / "config.json"), "config");
  config["d_ff"] = 25;
  testing::WriteFile(folder.path() / "model" / "config.json", config.dump());
  ExpectThrows([&] { EncoderDecoder(folder.path() / "model"); }, ErrorCode::kInvalidModel,
               "should be of (25,32), but is of (24,32)");
  config["d_ff"] = 24;
  config["num_layers"] = 1;
  testing::WriteFile(folder.path() / "model" / "config.json", config.dump());
  ExpectThrows([&] { EncoderDecoder(folder.path() / "model"); }, ErrorCode::kUnsupported,
               "has no place in a model of the family 't5'");
}

}  // namespace
}  // namespace oort
