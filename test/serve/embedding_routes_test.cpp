// SPDX-License-Identifier: MIT
// /v1/embeddings with a tiny encoder.
#include <future>

#include "kit/paths.h"
#include "serve/encoder_job.h"
#include "serve/encoder_loop.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

Embedder TinyBert() {
  EmbedderOptions options;
  options.threads = 1;
  return Embedder(TestData() / "encoders/tiny_bert", options);
}

ServeOptions WithEncoder() {
  ServeOptions options = Options();
  options.encoder =
      std::make_shared<EncoderLoop>(TinyBert(), "minilm", std::vector<std::string>{"ada"});
  return options;
}

const std::string kPath = "/v1/embeddings";

TEST(EmbeddingRoutes, GivesTheVectorsOfTheEmbedder) {
  const Fixture fixture(WithEncoder());
  Embedder embedder = TinyBert();
  const std::vector<std::string> texts = {"a small cat", "the dog runs"};
  const Embeddings want = embedder.Embed(texts);
  const Json body =
      Json::parse(fixture.Post(kPath, Json{{"model", "minilm"}, {"input", texts}}).body);
  ASSERT_TRUE(body.contains("data")) << body;
  ASSERT_EQ(body["data"].size(), 2u);
  EXPECT_EQ(body["model"], "minilm");
  EXPECT_EQ(body["usage"]["prompt_tokens"], want.tokens);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(body["data"][i]["index"], i);
    const std::vector<float> got = body["data"][i]["embedding"];
    ASSERT_EQ(got.size(), want[i].size());
    for (size_t d = 0; d < got.size(); ++d) EXPECT_NEAR(got[d], want[i][d], 1e-5);
  }
  // Tokens and another name are as good.
  const Json ids = Json::parse(
      fixture.Post(kPath, Json{{"model", "ada"}, {"input", embedder.Encode(texts[1])}}).body);
  const std::vector<float> same = ids["data"][0]["embedding"];
  for (size_t d = 0; d < same.size(); ++d) EXPECT_NEAR(same[d], want[1][d], 1e-5);
  const Json coded = Json::parse(
      fixture.Post(kPath, Json{{"input", texts[0]}, {"encoding_format", "base64"}}).body);
  EXPECT_EQ(coded["data"][0]["embedding"].get<std::string>().size(), 4 * ((32 * 4 + 2) / 3));
}

TEST(EmbeddingRoutes, ManyAtOnceGetTheirOwn) {
  const Fixture fixture(WithEncoder());
  Embedder embedder = TinyBert();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 8; ++k) {
        const std::string text = "cat " + std::string(static_cast<size_t>(i * 3 + 1), 'a');
        const Json body = Json::parse(fixture.Post(kPath, Json{{"input", text}}).body);
        const Json again = Json::parse(fixture.Post(kPath, Json{{"input", {text, "dog"}}}).body);
        const std::vector<float> one = body["data"][0]["embedding"];
        const std::vector<float> two = again["data"][0]["embedding"];
        for (size_t d = 0; d < one.size(); ++d) EXPECT_NEAR(one[d], two[d], 1e-5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// What an answer held is gone before a server that gave it may end.
TEST(EncoderLoop, FinishesWithNothingHeld) {
  EncoderLoop loop(TinyBert(), "minilm");
  loop.Finish();  // nothing waits
  std::vector<std::weak_ptr<int>> held;
  for (int i = 0; i < 8; ++i) {
    auto lease = std::make_shared<int>(i);
    held.push_back(lease);
    const bool wanted = i % 3 != 0;
    loop.Submit(
        {TokenPair{{1, 2, 3}, {}}}, [wanted] { return wanted; },
        [lease = std::move(lease)](const std::vector<float>&, const std::exception_ptr&) {});
  }
  loop.Finish();
  for (const std::weak_ptr<int>& lease : held) EXPECT_TRUE(lease.expired());
  EXPECT_EQ(loop.stats().running, 0);
}

TEST(EncoderLoop, AnAskerThatFailsEndsNothingElse) {
  EncoderLoop loop(TinyBert(), "minilm");
  std::atomic<int> told = 0;
  for (int i = 0; i < 8; ++i) {
    loop.Submit(
        {TokenPair{{1, 2, 3}, {}}}, [] { return true; },
        [&, i](const std::vector<float>&, const std::exception_ptr&) {
          ++told;
          if (i % 2 == 0) throw std::bad_alloc();
        });
  }
  loop.Finish();
  EXPECT_EQ(told, 8);
}

/// One whose body cannot be written gets an error.
TEST(EncoderLoop, ABodyThatFailsIsAnError) {
  EncoderLoop loop(TinyBert(), "minilm");
  http::Server server({.handle = [&](const http::Request&, const http::Reply& reply) {
    const auto job = std::make_shared<EncoderJob>();
    job->texts = {TokenPair{{1, 2, 3}, {}}};
    job->body = [](const auto&) -> std::string { throw std::bad_alloc(); };
    Begin(loop, Context{.reply = reply, .id = "1"}, job);
  }});
  RawClient client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 503);
  EXPECT_EQ(loop.metrics().failed, 1);
  loop.Finish();
}

/// Keeps a loop from its work as long as it lives.
class BusyLoop {
 public:
  explicit BusyLoop(EncoderLoop& loop) {
    const auto begun = std::make_shared<std::promise<void>>();
    loop.Submit(
        {TokenPair{{1, 2, 3}, {}}}, [] { return true; },
        [begun, end = end_.get_future().share()](const auto&, const auto&) {
          begun->set_value();
          end.wait();
        });
    begun->get_future().wait();
  }
  ~BusyLoop() { end_.set_value(); }

 private:
  std::promise<void> end_;
};

TEST(EmbeddingRoutes, AnswersInTimeOrSaysThatItIsOver) {
  ServeOptions options = WithEncoder();
  EncoderLoop& loop = *options.encoder;
  const Fixture fixture(std::move(options));
  Json body = {{"input", "a"}, {"timeout", 0.05}};
  {
    const BusyLoop busy(loop);
    ExpectError(fixture.Post(kPath, body), 504, "deadline");
    EXPECT_EQ(loop.metrics().failed, 1);
    const int64_t read = loop.stats().prompt_tokens;
    body["timeout"] = 0;
    ExpectError(fixture.Post(kPath, body), 400, "", "timeout");
    EXPECT_EQ(loop.stats().prompt_tokens, read);
  }
  body["timeout"] = 60;
  EXPECT_EQ(fixture.Post(kPath, body).status, 200);
  EXPECT_EQ(loop.metrics().finished[static_cast<size_t>(FinishReason::kStop)], 1);

  options = WithEncoder();
  options.most_time = 0s;
  ExpectError(Fixture(std::move(options)).Post(kPath, body), 504, "deadline");
}

/// Who leaves is counted at once, and his texts are not read.
TEST(EmbeddingRoutes, ReadsNothingForWhoHasLeft) {
  ServeOptions options = WithEncoder();
  EncoderLoop& loop = *options.encoder;
  const Fixture fixture(std::move(options));
  {
    const BusyLoop busy(loop);
    {
      RawClient client(fixture.server.port());
      client.Send(Fixture::PostText(kPath, Json{{"input", "a"}}.dump()));
      EXPECT_TRUE(Eventually([&] { return loop.stats().waiting == 1; }));
    }
    EXPECT_TRUE(Eventually([&] { return loop.metrics().left == 1; }));
  }
  loop.Finish();
  EXPECT_EQ(loop.stats().prompt_tokens, 3);  // of what kept it busy
}

TEST(EmbeddingRoutes, RefusesWhatItCannotEncode) {
  const Fixture fixture(WithEncoder());
  ExpectError(fixture.Post(kPath, Json{{"model", "storyteller"}, {"input", "a"}}), 404,
              "model_not_found", "model");
  ExpectError(fixture.Post(kPath, Json{{"input", ""}}), 400, "", "input");
  ExpectError(fixture.Post(kPath, Json{{"input", {"a", ""}}}), 400, "", "input[1]");
  ExpectError(fixture.Post(kPath, Json{{"input", "a"}, {"dimensions", 7}}), 400, "", "dimensions");
  std::string text;
  for (int i = 0; i < 100; ++i) text += "cat ";
  ExpectError(fixture.Post(kPath, Json{{"input", {"a", text}}}), 400, "context_length_exceeded",
              "input[1]");
  ExpectError(Fixture().Post(kPath, Json{{"input", "a"}}), 404, "model_not_found");
  EXPECT_EQ(fixture.Post(kPath, Json{{"input", "a"}}).status, 200);
}

TEST(EncoderLoop, TellsWhoWaitsThatItEnds) {
  std::atomic<int> answered = 0;
  {
    EncoderLoop loop(TinyBert(), "minilm", {}, 8);
    const std::vector<TokenPair> text = {{{2, 5, 3}, {}}};
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
      try {
        loop.Submit(
            text, [] { return true; },
            [&](const std::vector<float>& vectors, const std::exception_ptr& failure) {
              EXPECT_NE(vectors.empty(), failure == nullptr);
              ++answered;
            });
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kLimit);
        ++refused;
        ++answered;
      }
    }
    EXPECT_GT(refused, 0);  // three fit
  }
  EXPECT_EQ(answered, 200);
}

}  // namespace
}  // namespace oort::serve
