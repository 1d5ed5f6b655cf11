// SPDX-License-Identifier: MIT
// Several models behind one server.
#include <atomic>
#include <future>

#include "kit/errors.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

LanguageSource Source(const std::string& name) {
  const ServeOptions pattern = Options();
  return {.name = name,
          .aliases = {},
          .adapters = {},
          .load =
              [pattern] {
                return LanguageSetup{pattern.served, pattern.loop};
              },
          .guessed_bytes = 0};
}

/// Models "one" and "two", none loaded yet.
ServeOptions Two() {
  ServeOptions options = Options();
  options.served.model = nullptr;
  options.models = {Source("one"), Source("two")};
  options.models[1].aliases = {"second"};
  return options;
}

Json For(const std::string& model) {
  Json request = Chat();
  if (!model.empty()) request["model"] = model;
  return request;
}

const std::string kShortChat = "/v1/chat/completions";

std::string StateOf(const Fixture& fixture, const std::string& model) {
  return Json::parse(fixture.Get("/v1/models/" + model).body)["status"]["value"];
}

TEST(SeveralModels, AreLoadedWhenTheyAreNamed) {
  const Fixture fixture(Two());
  const Json list = Json::parse(fixture.Get("/v1/models").body)["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "one");
  EXPECT_EQ(list[0]["status"]["value"], "unloaded");
  EXPECT_EQ(list[2]["id"], "second");
  EXPECT_EQ(list[2]["root"], "two");
  EXPECT_EQ(fixture.Get("/ready").status, 200);
  EXPECT_EQ(fixture.Get("/metrics").status, 200);

  const Answer second = fixture.Post(kShortChat, For("two"));
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(Json::parse(second.body)["model"], "two");
  EXPECT_EQ(StateOf(fixture, "two"), "loaded");
  EXPECT_EQ(StateOf(fixture, "one"), "unloaded");
  const Answer first = fixture.Post(kShortChat, For(""));
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(Json::parse(first.body)["model"], "one");
  EXPECT_EQ(Json::parse(first.body)["choices"], Json::parse(second.body)["choices"]);
  EXPECT_EQ(Json::parse(fixture.Post(kShortChat, For("second")).body)["model"], "two");
  EXPECT_EQ(fixture.server.Look("two").loads, 1);
  ExpectError(fixture.Post(kShortChat, For("three")), 404, "model_not_found", "model");
  ExpectError(fixture.PostBytes(kShortChat, "{"), 400, "");
}

TEST(SeveralModels, AnswerInEachApi) {
  const Fixture fixture(Two());
  Json request = For("two:latest");
  request.erase("max_tokens");
  request.erase("temperature");
  request["stream"] = false;
  request["options"] = {{"num_predict", 4}};
  const Json answer = Json::parse(fixture.Post("/api/chat", request).body);
  EXPECT_EQ(answer["model"], "two") << answer;
  EXPECT_EQ(Json::parse(fixture.Get("/api/tags").body)["models"].size(), 2u);
  EXPECT_EQ(Json::parse(fixture.Post("/v1/messages", For("one")).body)["model"], "one");
  // Errors have the form of the API, though no model has seen the request.
  request["model"] = "three";
  const Answer ollama = fixture.Post("/api/chat", request);
  EXPECT_EQ(ollama.status, 404);
  EXPECT_TRUE(Json::parse(ollama.body)["error"].is_string()) << ollama.body;
  const Answer anthropic = fixture.Post("/v1/messages", For("three"));
  EXPECT_EQ(Json::parse(anthropic.body)["error"]["type"], "not_found_error") << anthropic.body;
  const Json tokens =
      Json::parse(fixture.Post("/tokenize", {{"model", "one"}, {"prompt", "Once"}}).body);
  EXPECT_GT(tokens["count"], 0) << tokens;
}

TEST(SeveralModels, OneGoesWhenAnotherNeedsItsRoom) {
  ServeOptions options = Two();
  size_t bytes = 0;
  {
    const Fixture probe(Two());
    ASSERT_EQ(probe.Post(kShortChat, For("one")).status, 200);
    bytes = probe.server.Look("one").bytes;
  }
  ASSERT_GT(bytes, 0u);
  options.models_memory = bytes + bytes / 2;
  const Fixture fixture(std::move(options));
  for (const char* name : {"one", "two", "one"}) {
    const Answer answer = fixture.Post(kShortChat, For(name));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(answer.body)["model"], name);
  }
  EXPECT_EQ(StateOf(fixture, "one"), "loaded");
  EXPECT_EQ(StateOf(fixture, "two"), "unloaded");
  EXPECT_EQ(fixture.server.Look("one").loads, 2);
  // What engines that are gone have counted stays.
  const std::string metrics = fixture.Get("/metrics").body;
  EXPECT_NE(metrics.find("vllm:generation_tokens_total{model_name=\"one\",engine=\"0\"} 48\n"),
            std::string::npos);
  EXPECT_NE(metrics.find("vllm:generation_tokens_total{model_name=\"two\",engine=\"0\"} 24\n"),
            std::string::npos);
  EXPECT_NE(metrics.find("vllm:iteration_tokens_total_count{model_name=\"two\",engine=\"0\"} 24\n"),
            std::string::npos);

  // An answer that runs keeps its model; who needs the room waits until it has ended.
  RawClient stream(fixture.server.port());
  Json endless = Endless();
  endless["model"] = "one";
  stream.Send(Fixture::PostText("/v1/completions", endless.dump()));
  ASSERT_FALSE(stream.Receive().empty());
  auto other = std::async(std::launch::async, [&] { return fixture.Post(kShortChat, For("two")); });
  std::string text;
  for (std::string part = stream.Receive(); !part.empty(); part = stream.Receive()) {
    text += part;
    if (text.find("[DONE]") != std::string::npos) break;
  }
  EXPECT_NE(text.find("[DONE]"), std::string::npos);
  EXPECT_EQ(other.get().status, 200);
  EXPECT_EQ(StateOf(fixture, "two"), "loaded");
}

TEST(SeveralModels, OneThatCannotBeLoadedFailsAlone) {
  ServeOptions options = Two();
  options.models[0].load = []() -> LanguageSetup {
    throw Error(ErrorCode::kInvalidModel, "/secret/path is broken");
  };
  std::mutex mutex;
  std::string warned;
  options.warn = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    warned = line;
  };
  options.retry_time = 0ms;
  const Fixture fixture(std::move(options));
  const Answer failed = fixture.Post(kShortChat, For("one"));
  ExpectError(failed, 500, "model_load_failed", "model");
  EXPECT_EQ(failed.body.find("secret"), std::string::npos);
  EXPECT_EQ(StateOf(fixture, "one"), "failed");
  EXPECT_EQ(fixture.Post(kShortChat, For("two")).status, 200);
  const std::lock_guard lock(mutex);
  EXPECT_NE(warned.find("/secret/path is broken"), std::string::npos);
}

TEST(SeveralModels, OneThatIsTooLargeIsRefused) {
  ServeOptions options = Two();
  options.models_memory = 1000;
  const Fixture fixture(std::move(options));
  ExpectError(fixture.Post(kShortChat, For("one")), 503, "model_too_large", "model");
}

TEST(SeveralModels, WhoWaitsForALoadIsToldAtHisDeadline) {
  ServeOptions options = Two();
  std::promise<void> go;
  const auto wait = go.get_future().share();
  options.models[0].load = [wait, load = options.models[0].load] {
    wait.wait();
    return load();
  };
  std::optional<Fixture> fixture(std::move(options));
  Json hurried = For("one");
  hurried["timeout"] = 0.05;
  auto patient =
      std::async(std::launch::async, [&] { return fixture->Post(kShortChat, For("one")); });
  ExpectError(fixture->Post(kShortChat, hurried), 504, "deadline");
  EXPECT_EQ(StateOf(*fixture, "one"), "loading");
  go.set_value();
  EXPECT_EQ(patient.get().status, 200);
  EXPECT_EQ(fixture->server.Look("one").loads, 1);
}

TEST(SeveralModels, AServerEndsWhileOneIsLoaded) {
  ServeOptions options = Two();
  std::promise<void> begun, go;
  options.models[0].load = [&, load = options.models[0].load] {
    begun.set_value();
    go.get_future().wait();
    return load();
  };
  std::optional<Fixture> fixture(std::move(options));
  RawClient client(fixture->server.port());
  client.Send(Fixture::PostText(kShortChat, For("one").dump()));
  begun.get_future().wait();
  EXPECT_FALSE(fixture->server.Drain(10ms));
  go.set_value();
  fixture.reset();
}

TEST(SeveralModels, NamesMustDiffer) {
  ServeOptions options = Two();
  options.models[1].aliases = {"one"};
  testing::ExpectThrows([&] { const ModelServer server(options); }, ErrorCode::kInvalidArgument,
                        "two models");
}

}  // namespace
}  // namespace oort::serve
