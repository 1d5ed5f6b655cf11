// SPDX-License-Identifier: MIT
// Embedders and rerankers from C: the numbers of transformers, and what careless callers do.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c_api/failure.h"
#include "encoders/folders.h"
#include "oort/c.h"

namespace {

using oort::AnswersOf;
using oort::TinyEncoder;
using oort::testing::Failure;

/// Options of one thread, and those of these names.
class EncoderSettings {
 public:
  EncoderSettings(std::initializer_list<std::pair<const char*, const char*>> values = {}) {
    Set("threads", "1");
    for (const auto& [name, value] : values) Set(name, value);
  }
  ~EncoderSettings() { oort_options_free(options_); }
  EncoderSettings(const EncoderSettings&) = delete;
  EncoderSettings& operator=(const EncoderSettings&) = delete;
  const oort_options* get() const { return options_; }

 private:
  void Set(const char* name, const char* value) {
    EXPECT_EQ(oort_options_set(options_, name, value, nullptr), OORT_OK) << name;
  }
  oort_options* options_ = oort_options_new();
};

oort_embedder* LoadEmbedder(const oort_options* options, const std::string& name = "tiny_bert") {
  Failure failure;
  oort_embedder* embedder = nullptr;
  EXPECT_EQ(oort_embedder_load(TinyEncoder(name).c_str(), options, &embedder, failure.slot()),
            OORT_OK)
      << failure.message();
  return embedder;
}

oort_reranker* LoadReranker(const oort_options* options) {
  Failure failure;
  oort_reranker* reranker = nullptr;
  EXPECT_EQ(oort_reranker_load(TinyEncoder("modernbert_reranker").c_str(), options, &reranker,
                               failure.slot()),
            OORT_OK)
      << failure.message();
  return reranker;
}

struct GivenRows {
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  std::vector<size_t> lengths;
  explicit GivenRows(std::vector<std::string> given) : texts(std::move(given)) {
    for (const std::string& text : texts) {
      pointers.push_back(text.data());
      lengths.push_back(text.size());
    }
  }
};

TEST(CApiEmbedding, VectorsAreThoseOfTransformers) {
  const auto answers = AnswersOf("tiny_bert");
  std::vector<std::string> texts;
  for (const auto& row : answers) texts.push_back(row["text"].get<std::string>());
  const GivenRows rows(std::move(texts));
  for (const bool cls : {false, true}) {
    const EncoderSettings settings{
        {"pooling", cls ? "cls" : "mean"}, {"normalize", "false"}, {"batch_tokens", "64"}};
    oort_embedder* embedder = LoadEmbedder(settings.get());
    ASSERT_NE(embedder, nullptr);
    float* vectors = nullptr;
    size_t truncated = 0;
    Failure failure;
    ASSERT_EQ(oort_embedder_embed(embedder, rows.pointers.data(), rows.lengths.data(),
                                  rows.pointers.size(), &vectors, &truncated, failure.slot()),
              OORT_OK)
        << failure.message();
    EXPECT_EQ(truncated, 1u);
    const auto width = static_cast<size_t>(oort_embedder_dimensions(embedder));
    for (size_t i = 0; i < rows.texts.size(); ++i) {
      oort::ExpectClose({vectors + i * width, width},
                        answers[i][cls ? "cls" : "mean"].get<std::vector<float>>(), rows.texts[i]);
    }
    oort_free(vectors);
    oort_embedder_free(embedder);
  }
}

TEST(CApiEmbedding, ScoresAreThoseOfTransformers) {
  for (const bool raw : {false, true}) {
    const EncoderSettings settings{{"raw_scores", raw ? "true" : "false"}};
    oort_reranker* reranker = LoadReranker(settings.get());
    ASSERT_NE(reranker, nullptr);
    for (const auto& row : AnswersOf("modernbert_reranker")) {
      const auto query = row["query"].get<std::string>();
      const GivenRows rows({row["document"].get<std::string>()});
      float* scores = nullptr;
      ASSERT_EQ(oort_reranker_score(reranker, query.data(), query.size(), rows.pointers.data(),
                                    rows.lengths.data(), 1, &scores, nullptr, nullptr),
                OORT_OK);
      EXPECT_NEAR(scores[0], row[raw ? "logit" : "score"].get<float>(), 1e-4) << query;
      oort_free(scores);
    }
    oort_reranker_free(reranker);
  }
}

TEST(CApiEmbedding, OptionsReachTheEncoder) {
  const EncoderSettings fewer{{"text_tokens", "5"}};
  oort_embedder* embedder = LoadEmbedder(fewer.get());
  EXPECT_EQ(oort_embedder_max_tokens(embedder), 5);
  const char* const text = "two comets came from a cloud of ice and dust";
  float* vectors = nullptr;
  size_t truncated = 0;
  EXPECT_EQ(oort_embedder_embed(embedder, &text, nullptr, 1, &vectors, &truncated, nullptr),
            OORT_OK);
  EXPECT_EQ(truncated, 1u);
  oort_free(vectors);
  oort_embedder_free(embedder);

  Failure failure;
  const EncoderSettings none{{"text_tokens", "2"}};
  embedder = nullptr;
  EXPECT_EQ(
      oort_embedder_load(TinyEncoder("tiny_bert").c_str(), none.get(), &embedder, failure.slot()),
      OORT_INVALID_ARGUMENT);
  EXPECT_EQ(embedder, nullptr);
  oort_options* const options = oort_options_new();
  EXPECT_EQ(oort_options_set(options, "pooling", "last", failure.slot()), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_options_set(options, "batch_tokens", "0", failure.slot()), OORT_INVALID_ARGUMENT);
  const auto stop = [](const char*, uint64_t, uint64_t, void*) { return 1; };
  EXPECT_EQ(oort_options_on_progress(options, stop, nullptr, nullptr), OORT_OK);
  for (const char* const name : {"tiny_bert", "bert"}) {  // a graph, and a folder of Hugging Face
    EXPECT_EQ(oort_embedder_load(TinyEncoder(name).c_str(), options, &embedder, failure.slot()),
              OORT_CANCELLED)
        << name;
  }
  oort_options_free(options);
}

TEST(CApiEmbedding, WhatIsNullIsAnError) {
  oort_embedder_free(nullptr);
  oort_reranker_free(nullptr);
  oort_embedder_cancel(nullptr);
  oort_reranker_cancel(nullptr);
  EXPECT_EQ(oort_embedder_dimensions(nullptr), 0);
  EXPECT_EQ(oort_embedder_max_tokens(nullptr), 0);
  EXPECT_EQ(oort_reranker_max_tokens(nullptr), 0);
  Failure failure;
  oort_embedder* embedder = nullptr;
  oort_reranker* reranker = nullptr;
  EXPECT_EQ(oort_embedder_load(nullptr, nullptr, &embedder, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_embedder_load("/nowhere", nullptr, &embedder, failure.slot()), OORT_NOT_FOUND);
  EXPECT_EQ(oort_embedder_load("/nowhere", nullptr, nullptr, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_reranker_load(nullptr, nullptr, &reranker, nullptr), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_reranker_load("/nowhere", nullptr, &reranker, nullptr), OORT_NOT_FOUND);

  const EncoderSettings settings;
  embedder = LoadEmbedder(settings.get());
  reranker = LoadReranker(settings.get());
  float* results = nullptr;
  const char* texts[2] = {"ice", nullptr};
  const size_t lengths[2] = {3, 0};
  const auto embed = [&](const char* const* given, size_t count) {
    return oort_embedder_embed(embedder, given, nullptr, count, &results, nullptr, failure.slot());
  };
  EXPECT_EQ(embed(nullptr, 1), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(embed(texts, 2), OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(), "text 1 is NULL");
  EXPECT_EQ(results, nullptr);
  EXPECT_EQ(oort_embedder_embed(embedder, texts, nullptr, 1, nullptr, nullptr, nullptr),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_embedder_embed(nullptr, texts, nullptr, 1, &results, nullptr, nullptr),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(oort_reranker_score(reranker, nullptr, 1, texts, nullptr, 1, &results, nullptr,
                                failure.slot()),
            OORT_INVALID_ARGUMENT);
  EXPECT_EQ(failure.message(), "query is NULL");
  // An empty text may be NULL, where its length says so, and no text at all is no failure.
  EXPECT_EQ(oort_reranker_score(reranker, nullptr, 0, texts, lengths, 2, &results, nullptr,
                                failure.slot()),
            OORT_OK)
      << failure.message();
  oort_free(results);
  EXPECT_EQ(embed(nullptr, 0), OORT_OK) << failure.message();
  EXPECT_NE(results, nullptr);
  oort_free(results);
  oort_embedder_free(embedder);
  oort_reranker_free(reranker);
}

TEST(CApiEmbedding, AnotherThreadMayEndIt) {
  const EncoderSettings settings{{"batch_tokens", "8"}};
  oort_embedder* embedder = LoadEmbedder(settings.get());
  const std::vector<const char*> texts(200'000, "the comet is far from the cloud");
  std::atomic<bool> ended = false;
  oort_code code = OORT_OK;
  float* vectors = nullptr;
  std::thread other([&] {
    code = oort_embedder_embed(embedder, texts.data(), nullptr, texts.size(), &vectors, nullptr,
                               nullptr);
    ended = true;
  });
  while (!ended) {  // it does nothing before the other one has begun
    oort_embedder_cancel(embedder);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  other.join();
  EXPECT_EQ(code, OORT_CANCELLED);
  EXPECT_EQ(vectors, nullptr);
  EXPECT_EQ(oort_embedder_embed(embedder, texts.data(), nullptr, 2, &vectors, nullptr, nullptr),
            OORT_OK);
  oort_free(vectors);
  oort_embedder_free(embedder);
}

TEST(CApiEmbedding, ThreadsShareOne) {
  const EncoderSettings settings;
  oort_embedder* embedder = LoadEmbedder(settings.get());
  const char* const text = "ice, dust & light";
  float* alone = nullptr;
  ASSERT_EQ(oort_embedder_embed(embedder, &text, nullptr, 1, &alone, nullptr, nullptr), OORT_OK);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        float* mine = nullptr;
        EXPECT_EQ(oort_embedder_embed(embedder, &text, nullptr, 1, &mine, nullptr, nullptr),
                  OORT_OK);
        for (size_t k = 0; mine != nullptr && k < 32; ++k) EXPECT_NEAR(mine[k], alone[k], 1e-6);
        oort_free(mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  oort_free(alone);
  oort_embedder_free(embedder);
}

}  // namespace
