// SPDX-License-Identifier: MIT
// A tiny BERT beside what transformers says of it (make_encoder.py).
#include "oort/embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stop_token>

#include "encoders/folders.h"
#include "kit/errors.h"

namespace oort {
namespace {

using testing::ExpectThrows;

const std::filesystem::path kTinyBert = TinyEncoder("tiny_bert");

struct EncoderAnswer {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> mean, cls;
};

std::vector<EncoderAnswer> EncoderAnswers(const std::string& name = "tiny_bert") {
  std::vector<EncoderAnswer> answers;
  for (const auto& row : AnswersOf(name)) {
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

TEST(Embedder, StopsWhereItIsTold) {
  std::stop_source stop;
  stop.request_stop();
  for (const char* name : {"tiny_bert", "bert"}) {
    EmbedderOptions options = OneThread();
    Embedder embedder(TinyEncoder(name), options);
    const std::vector<std::string> texts = {"a fox", "a cat"};
    ExpectThrows([&] { embedder.Embed(texts, stop.get_token()); }, ErrorCode::kCancelled, "");
    EXPECT_EQ(embedder.Embed(texts).values.size(), 2u * 32);
    options.stop = stop.get_token();
    ExpectThrows([&] { Embedder(TinyEncoder(name), options); }, ErrorCode::kCancelled, "");
  }
}

class FolderEncoder : public ::testing::TestWithParam<std::string> {};

TEST_P(FolderEncoder, VectorsAreThoseOfTransformersAloneAndTogether) {
  const std::filesystem::path folder = TinyEncoder(GetParam());
  const std::vector<EncoderAnswer> answers = EncoderAnswers(GetParam());
  EXPECT_TRUE(IsEncoder(folder));
  std::vector<std::string> texts;
  for (const EncoderAnswer& answer : answers) texts.push_back(answer.text);
  for (const Pooling pooling : {Pooling::kAuto, Pooling::kCls}) {
    for (const int64_t batch_tokens : {1, 64, 4096}) {
      EmbedderOptions options = OneThread();
      options.pooling = pooling;
      options.normalize = false;
      options.batch_tokens = batch_tokens;
      Embedder embedder(folder, options);
      EXPECT_EQ(embedder.max_tokens(), 40);
      EXPECT_EQ(embedder.dimensions(), 32);
      const Embeddings together = embedder.Embed(texts);
      for (size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(embedder.Encode(texts[i]), answers[i].ids) << texts[i];
        ExpectClose(together[i], pooling == Pooling::kCls ? answers[i].cls : answers[i].mean,
                    texts[i]);
      }
    }
  }
}

TEST_P(FolderEncoder, TextsAreAsLongAsTheModelHasPositions) {
  EncoderCopy copy(GetParam());
  std::filesystem::remove(copy.path() / "tokenizer_config.json");
  const int64_t most = GetParam().starts_with("modernbert") ? 64 : 48;
  Embedder embedder(copy.path(), OneThread());
  EXPECT_EQ(embedder.max_tokens(), most);
  const std::vector<std::vector<int32_t>> texts = {
      std::vector<int32_t>(static_cast<size_t>(most), 7), {5, 6, 7}};
  EXPECT_TRUE(std::isfinite(embedder.EmbedTokens(texts).values[0]));
  EmbedderOptions options = OneThread();
  options.max_tokens = most + 1;
  ExpectThrows([&] { Embedder(copy.path(), options); }, ErrorCode::kInvalidArgument,
               "texts of " + std::to_string(most) + " tokens");
}

INSTANTIATE_TEST_SUITE_P(All, FolderEncoder,
                         ::testing::Values("bert", "distilbert", "modernbert", "modernbert_masked",
                                           "mpnet", "xlm_roberta"),
                         [](const auto& one) { return one.param; });

/// What a config.json says, and words of the error that it gives.
struct RefusedEncoder {
  std::string folder;
  nlohmann::json members;
  ErrorCode code;
  std::string words;
};

TEST(EncoderFolder, WhatCannotBeComputedIsRefused) {
  const RefusedEncoder cases[] = {
      {"bert", {{"model_type", "electra"}}, ErrorCode::kNotFound, "of the families bert, camem"},
      {"bert", {{"hidden_size", 0}}, ErrorCode::kInvalidModel, "hidden_size"},
      {"bert", {{"hidden_size", 64}}, ErrorCode::kInvalidModel, "word_embeddings.weight' should"},
      {"bert", {{"num_attention_heads", 5}}, ErrorCode::kInvalidModel, "divides"},
      {"bert", {{"num_hidden_layers", 3}}, ErrorCode::kInvalidModel, "layer.2.attention"},
      {"bert", {{"num_hidden_layers", 1}}, ErrorCode::kUnsupported, "has no place"},
      {"bert", {{"hidden_act", "laplace"}}, ErrorCode::kUnsupported, "laplace"},
      {"bert", {{"position_embedding_type", "relative_key"}}, ErrorCode::kUnsupported, "absolute"},
      {"bert", {{"is_decoder", true}}, ErrorCode::kUnsupported, "is_decoder"},
      {"bert", {{"quantization_config", {{"bits", 4}}}}, ErrorCode::kUnsupported, "quantized"},
      {"mpnet", {{"relative_attention_num_buckets", 16}}, ErrorCode::kUnsupported, "32"},
      {"xlm_roberta", {{"pad_token_id", 60}}, ErrorCode::kInvalidModel, "padding's positions"},
      {"distilbert", {{"sinusoidal_pos_embds", true}}, ErrorCode::kUnsupported, "learned"},
      {"modernbert", {{"layer_types", {"full_attention"}}}, ErrorCode::kInvalidModel, "each layer"},
      {"modernbert",
       {{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}},
       ErrorCode::kUnsupported,
       "stretched"},
  };
  for (const RefusedEncoder& refused : cases) {
    EncoderCopy copy(refused.folder);
    ChangeJson(copy.path() / "config.json", refused.members);
    SCOPED_TRACE(refused.members.dump());
    ExpectThrows([&] { Embedder(copy.path(), OneThread()); }, refused.code, refused.words);
  }
}

TEST(EncoderFolder, PoolingIsWhatTheFolderSays) {
  const std::vector<EncoderAnswer> answers = EncoderAnswers("mpnet");
  EncoderCopy copy("mpnet");
  std::filesystem::create_directory(copy.path() / "1_Pooling");
  const auto file = copy.path() / "1_Pooling" / "config.json";
  for (const char* text : {R"({"pooling_mode": "cls"})", R"({"pooling_mode_cls_token": true})"}) {
    testing::WriteFile(file, text);
    Embedder embedder(copy.path(), OneThread());
    ExpectClose(embedder.Embed(std::vector{answers[0].text})[0], Normalized(answers[0].cls), text);
  }
  testing::WriteFile(file, R"({"pooling_mode": "lasttoken"})");
  ExpectThrows([&] { Embedder(copy.path(), OneThread()); }, ErrorCode::kUnsupported, "pooling");
  std::filesystem::remove(file);
  const auto modules = copy.path() / "modules.json";
  testing::WriteFile(modules, R"([{"type": "sentence_transformers.models.Transformer"}])");
  EXPECT_NO_THROW(Embedder(copy.path(), OneThread()));
  testing::WriteFile(modules, R"([{"type": "sentence_transformers.models.Dense"}])");
  ExpectThrows([&] { Embedder(copy.path(), OneThread()); }, ErrorCode::kUnsupported, "Dense");
}

}  // namespace
}  // namespace oort
