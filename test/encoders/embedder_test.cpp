// SPDX-License-Identifier: MIT
// A tiny BERT beside what transformers says of it (make_encoder.py).
#include "oort/embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kTinyBert = TestData() / "encoders" / "tiny_bert";

struct EncoderAnswer {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> mean, cls;
};

std::vector<EncoderAnswer> EncoderAnswers() {
  std::vector<EncoderAnswer> answers;
  for (const auto& row : nlohmann::json::parse(testing::FileBytes(kTinyBert / "answers.json"))) {
    answers.push_back({row["text"].get<std::string>(), row["ids"].get<std::vector<int32_t>>(),
                       row["mean"].get<std::vector<float>>(),
                       row["cls"].get<std::vector<float>>()});
  }
  EXPECT_GE(answers.size(), 10u);
  return answers;
}

EmbedderOptions OneThread() {
  EmbedderOptions options;
  options.threads = 1;
  return options;
}

std::vector<float> Normalized(std::vector<float> vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  for (float& value : vector) value = static_cast<float>(value / std::sqrt(sum));
  return vector;
}

void ExpectClose(std::span<const float> got, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << what << i;
}

TEST(Embedder, TokensAreThoseOfTransformers) {
  const Embedder embedder(kTinyBert, OneThread());
  EXPECT_EQ(embedder.max_tokens(), 24);
  EXPECT_EQ(embedder.dimensions(), 32);
  for (const EncoderAnswer& answer : EncoderAnswers()) {
    bool truncated = false;
    EXPECT_EQ(embedder.Encode(answer.text, &truncated), answer.ids) << answer.text;
    EXPECT_EQ(truncated, embedder.tokenizer().Encode(answer.text).size() > 24) << answer.text;
  }
}

TEST(Embedder, VectorsAreThoseOfTransformersAloneAndTogether) {
  const std::vector<EncoderAnswer> answers = EncoderAnswers();
  std::vector<std::string> texts;
  for (const EncoderAnswer& answer : answers) texts.push_back(answer.text);
  for (const Pooling pooling : {Pooling::kAuto, Pooling::kCls}) {
    for (const bool normalize : {true, false}) {
      for (const int64_t batch_tokens : {1, 64, 4096}) {
        EmbedderOptions options = OneThread();
        options.pooling = pooling;
        options.normalize = normalize;
        options.batch_tokens = batch_tokens;
        Embedder embedder(kTinyBert, options);
        const Embeddings together = embedder.Embed(texts);
        EXPECT_EQ(together.truncated, 1);
        int64_t tokens = 0;
        for (size_t i = 0; i < answers.size(); ++i) {
          const auto& raw = pooling == Pooling::kCls ? answers[i].cls : answers[i].mean;
          ExpectClose(together[i], normalize ? Normalized(raw) : raw, texts[i]);
          tokens += static_cast<int64_t>(answers[i].ids.size());
        }
        EXPECT_EQ(together.tokens, tokens);
      }
    }
  }
}

TEST(Embedder, ManyTextsKeepTheirPlaces) {
  const std::vector<EncoderAnswer> answers = EncoderAnswers();
  std::vector<std::vector<int32_t>> texts;
  for (size_t i = 0; i < 300; ++i) texts.push_back(answers[i * 7 % answers.size()].ids);
  Embedder embedder(kTinyBert, OneThread());
  const Embeddings embeddings = embedder.EmbedTokens(texts);
  ASSERT_EQ(embeddings.values.size(), 300u * 32);
  for (size_t i = 0; i < 300; ++i) {
    ExpectClose(embeddings[i], Normalized(answers[i * 7 % answers.size()].mean), "text");
  }
  EXPECT_TRUE(embedder.Embed({}).values.empty());
}

TEST(Embedder, RefusesWhatItCannotEmbed) {
  Embedder embedder(kTinyBert, OneThread());
  const auto embed = [&](std::vector<int32_t> ids) { embedder.EmbedTokens({&ids, 1}); };
  ExpectThrows([&] { embed({}); }, ErrorCode::kInvalidArgument, "1 to 24 tokens");
  ExpectThrows([&] { embed(std::vector<int32_t>(25, 5)); }, ErrorCode::kInvalidArgument, "25");
  ExpectThrows([&] { embed({-1}); }, ErrorCode::kInvalidArgument, "not among");
  ExpectThrows([&] { embed({100000}); }, ErrorCode::kInvalidArgument, "not among");
  EXPECT_NO_THROW(embed({5}));
  EmbedderOptions small = OneThread();
  small.max_tokens = 2;
  ExpectThrows([&] { Embedder(kTinyBert, small); }, ErrorCode::kInvalidArgument, "no room");
  ExpectThrows([&] { Embedder("/nowhere"); }, ErrorCode::kNotFound, "tokenizer.json");
  EXPECT_TRUE(IsEncoder(kTinyBert));
  EXPECT_FALSE(IsEncoder(kTinyBert.parent_path()));
  EXPECT_FALSE(IsEncoder(SourceTree() / "models" / "storyteller"));
}

}  // namespace
}  // namespace oort
