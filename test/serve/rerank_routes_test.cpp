// SPDX-License-Identifier: MIT
// /v1/rerank with a tiny reranker.
#include <future>

#include "kit/paths.h"
#include "serve/encoder_loop.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

Reranker TinyRanker() {
  RerankerOptions options;
  options.threads = 1;
  return Reranker(TestData() / "encoders/xlm_roberta_reranker", options);
}

ServeOptions WithReranker() {
  ServeOptions options = Options();
  options.reranker =
      std::make_shared<EncoderLoop>(TinyRanker(), "bge", std::vector<std::string>{"ranker"});
  return options;
}

const Json kQuestion = {{"model", "bge"},
                        {"query", "how far is the comet"},
                        {"documents", {"the comet is far", "zebra", "ice and dust"}}};

/// Behind another request that takes its time.
TEST(RerankRoutes, AnswersInTimeOrSaysThatItIsOver) {
  ServeOptions options = WithReranker();
  EncoderLoop& loop = *options.reranker;
  const Fixture fixture(std::move(options));
  Json question = kQuestion;
  question["timeout"] = 0.05;
  std::promise<void> begun, end;
  loop.Submit(
      {TokenPair{{1, 2, 3}, {}}}, [] { return true; },
      [&](const auto&, const auto&) {
        begun.set_value();
        end.get_future().wait();
      });
  begun.get_future().wait();
  for (const char* path : {"/v1/rerank", "/v2/rerank"}) {
    ExpectError(fixture.Post(path, question), 504, "deadline");
  }
  end.set_value();
  question["timeout"] = 60;
  EXPECT_EQ(fixture.Post("/v1/rerank", question).status, 200);
}

TEST(RerankRoutes, SortsByTheScoresOfTheReranker) {
  const Fixture fixture(WithReranker());
  Reranker reranker = TinyRanker();
  const std::vector<std::string> texts = kQuestion["documents"];
  const RerankScores want = reranker.Score(kQuestion["query"].get<std::string>(), texts);
  const std::vector<size_t> places = BestScores(want.values);
  for (const char* path : {"/v1/rerank", "/v2/rerank", "/rerank"}) {
    const Json body = Json::parse(fixture.Post(path, kQuestion).body);
    ASSERT_TRUE(body.contains("results")) << body;
    ASSERT_EQ(body["results"].size(), 3u);
    EXPECT_EQ(body["model"], "bge");
    EXPECT_EQ(body["usage"]["total_tokens"], want.tokens);
    EXPECT_EQ(body["truncated"], 0);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(body["results"][i]["index"], places[i]);
      EXPECT_EQ(body["results"][i]["document"]["text"], texts[places[i]]);
      EXPECT_NEAR(body["results"][i]["relevance_score"].get<float>(), want.values[places[i]], 1e-5);
    }
  }
  Json best = kQuestion;
  best["top_n"] = 1;
  best["return_documents"] = false;
  const Json body = Json::parse(fixture.Post("/v1/rerank", best).body);
  ASSERT_EQ(body["results"].size(), 1u);
  EXPECT_EQ(body["results"][0]["index"], places[0]);
  EXPECT_FALSE(body["results"][0].contains("document"));
}

TEST(RerankRoutes, ManyAtOnceGetTheirOwn) {
  const Fixture fixture(WithReranker());
  const Json alone = Json::parse(fixture.Post("/v1/rerank", kQuestion).body);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 4; ++k) {
        const Json body = Json::parse(fixture.Post("/v1/rerank", kQuestion).body);
        for (size_t r = 0; r < 3; ++r) {
          EXPECT_NEAR(body["results"][r]["relevance_score"].get<float>(),
                      alone["results"][r]["relevance_score"].get<float>(), 1e-5);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RerankRoutes, CutsWhatIsTooLongAndSaysSo) {
  const Fixture fixture(WithReranker());
  Json request = kQuestion;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "comet ";
  request["documents"] = {text, "zebra"};
  const Json body = Json::parse(fixture.Post("/v1/rerank", request).body);
  EXPECT_EQ(body["truncated"], 1) << body;
  EXPECT_EQ(body["results"].size(), 2u);
}

TEST(RerankRoutes, RefusesWhatItCannotScore) {
  const Fixture fixture(WithReranker());
  Json request = kQuestion;
  request["model"] = "storyteller";
  ExpectError(fixture.Post("/v1/rerank", request), 404, "model_not_found", "model");
  request = kQuestion;
  request["documents"] = {"a", 1};
  ExpectError(fixture.Post("/v1/rerank", request), 400, "", "documents[1]");
  ExpectError(Fixture().Post("/v1/rerank", kQuestion), 404, "model_not_found");
  EXPECT_EQ(fixture.Post("/v1/rerank", kQuestion).status, 200);
}

TEST(RerankRoutes, ModelsListTheReranker) {
  const Fixture fixture(WithReranker());
  const Json body = Json::parse(fixture.Get("/v1/models").body);
  bool found = false;
  for (const Json& model : body["data"]) {
    if (model["id"] != "bge") continue;
    found = true;
    EXPECT_EQ(model["max_model_len"], 40);
  }
  EXPECT_TRUE(found) << body;
}

}  // namespace
}  // namespace oort::serve
