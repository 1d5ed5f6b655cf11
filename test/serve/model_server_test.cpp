// SPDX-License-Identifier: MIT
#include "serve/model_server.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "serve/served_model.h"

namespace oort::serve {
namespace {

TEST(ModelServer, TellsHowItIs) {
  const Fixture fixture;
  EXPECT_EQ(fixture.Get("/health").status, 200);
  EXPECT_EQ(fixture.Get("/health/").status, 200);
  EXPECT_EQ(fixture.Get("/ready").status, 200);
  EXPECT_EQ(Json::parse(fixture.Get("/version").body)["version"], "1.2.3");
  const Json models = Json::parse(fixture.Get("/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "storyteller");
  EXPECT_EQ(models["data"][0]["max_model_len"], 512);
  EXPECT_EQ(Json::parse(fixture.Get("/v1/models/storyteller").body)["id"], "storyteller");
  ExpectError(fixture.Get("/v1/models/other"), 404, "model_not_found");
  ExpectError(fixture.Get("/nowhere"), 404, "unknown_url");
  const Answer wrong = fixture.Get("/v1/chat/completions");
  ExpectError(wrong, 405, "method_not_allowed");
  EXPECT_TRUE(wrong.Has("Allow: POST\r\n"));
}

TEST(ModelServer, NamesRequests) {
  const Fixture fixture;
  EXPECT_TRUE(
      fixture.Get("/version", "X-Request-Id: my-1.a_B\r\n").Has("X-Request-Id: my-1.a_B\r\n"));
  EXPECT_TRUE(fixture.Get("/version", "X-Request-Id: a b\r\n").Has("X-Request-Id: req-"));
  EXPECT_TRUE(fixture.Get("/nowhere").Has("X-Request-Id: req-"));
}

TEST(ModelServer, AnswersAChatWholeAndInPartsAlike) {
  const Fixture fixture;
  Json request = Chat();
  const Answer whole = fixture.Post("/v1/chat/completions", request);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json body = Json::parse(whole.body);
  const std::string text = body["choices"][0]["message"]["content"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "storyteller");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["usage"]["completion_tokens"], 24);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");

  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  const Answer stream = fixture.Post("/v1/chat/completions", request);
  EXPECT_TRUE(stream.Has("Content-Type: text/event-stream"));
  EXPECT_TRUE(stream.whole);
  const std::vector<std::string> events = Events(stream.body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["delta"]["role"], "assistant");
  std::string joined, finish;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const Json choice = Json::parse(events[i])["choices"][0];
    joined += choice["delta"].value("content", "");
    if (choice["finish_reason"].is_string()) finish = choice["finish_reason"];
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(finish, "length");
  const Json last = Json::parse(events[events.size() - 2]);
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["completion_tokens"], 24);
  EXPECT_EQ(last["usage"]["prompt_tokens"], body["usage"]["prompt_tokens"]);
}

TEST(ModelServer, StreamsSayTheSameForEveryLength) {
  const Fixture fixture;
  for (int tokens = 1; tokens <= 20; tokens += 3) {
    Json request = {{"prompt", "Once upon a time"}, {"max_tokens", tokens}, {"temperature", 0}};
    const Json whole = Json::parse(fixture.Post("/v1/completions", request).body);
    request["stream"] = true;
    std::string joined;
    for (const std::string& event : Events(fixture.Post("/v1/completions", request).body)) {
      if (event != "[DONE]") joined += Json::parse(event)["choices"][0]["text"];
    }
    EXPECT_EQ(Json(joined), whole["choices"][0]["text"]) << tokens;
  }
}

TEST(ModelServer, GivesSeveralChoicesThatSeedsRepeat) {
  const Fixture fixture;
  const Json request = {{"prompt", {"Once", "The fox"}},
                        {"n", 3},
                        {"max_tokens", 12},
                        {"temperature", 1.5},
                        {"seed", 7},
                        {"logprobs", 2}};
  const Json first = Json::parse(fixture.Post("/v1/completions", request).body);
  ASSERT_EQ(first["choices"].size(), 6u);
  std::set<std::string> texts;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(first["choices"][i]["index"], i);
    EXPECT_FALSE(first["choices"][i]["logprobs"]["token_logprobs"].empty());
    texts.insert(first["choices"][i]["text"].get<std::string>());
  }
  EXPECT_GT(texts.size(), 3u);
  const Json second = Json::parse(fixture.Post("/v1/completions", request).body);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(first["choices"][i]["text"], second["choices"][i]["text"]);
  }
}

TEST(ModelServer, RefusesWhatItCannotAnswer) {
  const Fixture fixture;
  const std::string chat = "/v1/chat/completions";
  ExpectError(fixture.PostBytes(chat, "{"), 400, "");
  ExpectError(fixture.PostBytes(chat, "[]"), 400, "");
  ExpectError(fixture.PostBytes(chat, R"({"messages":[],"messages":[]})"), 400, "");
  Json request = Chat();
  request["model"] = "gpt-4";
  ExpectError(fixture.Post(chat, request), 404, "model_not_found", "model");
  request = Chat();
  request["n"] = 1'000'000;
  ExpectError(fixture.Post(chat, request), 400, "", "n");
  request = Chat();
  request["messages"][0]["content"] = {{{"type", "image_url"}}};
  ExpectError(fixture.Post(chat, request), 400, "", "messages[0].content[0].image_url");
  std::string text;
  for (int i = 0; i < 600; ++i) text += "story ";
  ExpectError(fixture.Post(chat, Chat(text)), 400, "context_length_exceeded");
  ExpectError(fixture.Ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"),
              415, "");
  ExpectError(fixture.Ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Type: application/json\r\nContent-Length: 9999999\r\n\r\n"),
              413, "request_too_large");
  EXPECT_EQ(fixture.Post(chat, Chat()).status, 200);  // and lives on
}

TEST(ModelServer, StopsForWhoeverLeaves) {
  const Fixture fixture;
  for (int how = 0; how < 3; ++how) {
    RawClient client(fixture.server.port());
    Json request = Endless();
    request["n"] = 16;  // so many that they cannot end before the test looks
    client.Send(Fixture::PostText("/v1/completions", request.dump()));
    EXPECT_NE(client.Receive(), "");
    EXPECT_TRUE(Eventually([&] { return fixture.server.stats().running > 0; }));
    const int64_t before = fixture.server.stats().generated_tokens;
    if (how == 0) client.Close();
    if (how == 1) client.Reset();
    if (how == 2) client.HalfClose();
    EXPECT_TRUE(Eventually([&] { return fixture.server.stats().running == 0; }));
    EXPECT_EQ(fixture.server.stats().used_blocks, 0);
    EXPECT_LT(fixture.server.stats().generated_tokens, before + 16 * 480);
  }
  const std::string metrics = fixture.Get("/metrics").body;
  EXPECT_NE(metrics.find("finished_reason=\"abort\"} "), std::string::npos);
  EXPECT_EQ(metrics.find("finished_reason=\"abort\"} 0"), std::string::npos);
}

TEST(ModelServer, StopsForWhoeverLeavesWithoutAStream) {
  const Fixture fixture;
  Json request = Endless();
  request["stream"] = false;
  request["n"] = 16;
  RawClient client(fixture.server.port());
  client.Send(Fixture::PostText("/v1/completions", request.dump()));
  EXPECT_TRUE(Eventually([&] { return fixture.server.stats().running > 0; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return fixture.server.stats().running == 0; }));
  EXPECT_EQ(fixture.server.stats().used_blocks, 0);
  EXPECT_LT(fixture.server.stats().generated_tokens, 16 * 480);
}

TEST(ModelServer, TellsToComeLaterWhenTheQueueIsFull) {
  ServeOptions options = Options();
  options.loop.engine.most_running = 1;
  options.loop.most_waiting = 1;
  const Fixture fixture(std::move(options));
  Answer refused;
  // Once more where the first came to its end before the third came.
  for (int turn = 0; turn < 20 && refused.status != 429; ++turn) {
    RawClient running(fixture.server.port()), waiting(fixture.server.port());
    running.Send(Fixture::PostText("/v1/completions", Endless().dump()));
    EXPECT_NE(running.Receive(), "");
    waiting.Send(Fixture::PostText("/v1/completions", Endless().dump()));
    EXPECT_NE(fixture.Get("/health").body, "");
    refused = fixture.Post("/v1/chat/completions", Chat());
  }
  ExpectError(refused, 429, "queue_full");
  EXPECT_TRUE(refused.Has("Retry-After: 1\r\n"));
  EXPECT_EQ(fixture.Get("/health").status, 200);
}

TEST(ModelServer, SaysSomethingWhileARequestWaits) {
  ServeOptions options = Options();
  options.loop.engine.most_running = 1;
  options.quiet_time = 10ms;
  const Fixture fixture(std::move(options));
  RawClient running(fixture.server.port());
  // Many requests one after the other keep the next one waiting.
  Json request = Endless();
  request["n"] = 3;
  running.Send(Fixture::PostText("/v1/completions", request.dump()));
  EXPECT_NE(running.Receive(), "");
  Json next = Chat();
  next["stream"] = true;
  const Answer answer = fixture.Post("/v1/chat/completions", next);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(": wait\n\n")) << answer.body.substr(0, 100);
  EXPECT_EQ(Events(answer.body).back(), "[DONE]");
}

TEST(ModelServer, EndsRequestsThatTakeTooLong) {
  ServeOptions options = Options();
  options.most_time = 0s;
  const Fixture fixture(std::move(options));
  ExpectError(fixture.Post("/v1/chat/completions", Chat()), 504, "deadline");
}

TEST(ModelServer, DrainEndsAnswersBeforeItEnds) {
  Fixture fixture;
  RawClient client(fixture.server.port());
  Json request = Endless();
  request["n"] = 2;
  client.Send(Fixture::PostText("/v1/completions", request.dump()));
  EXPECT_TRUE(Eventually([&] { return fixture.server.stats().running > 0; }));
  EXPECT_TRUE(fixture.server.Drain(60s));
  const Answer answer = client.ReceiveAnswer();
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(Events(answer.body).back(), "[DONE]");
  EXPECT_EQ(fixture.server.connections(), 0);
}

TEST(ModelServer, TurnsTextIntoTokensAndBack) {
  const Fixture fixture;
  const std::string text = "Once upon a time, a fox.";
  const Json tokens = Json::parse(
      fixture.Post("/tokenize", Json{{"prompt", text}, {"add_special_tokens", false}}).body);
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  EXPECT_EQ(tokens["max_model_len"], 512);
  const Json back =
      Json::parse(fixture.Post("/detokenize", Json{{"tokens", tokens["tokens"]}}).body);
  EXPECT_EQ(back["prompt"], text);
  EXPECT_EQ(back["content"], text);
  const Json same = Json::parse(
      fixture
          .Post("/tokenize", Json{{"content", text}, {"add_special", false}, {"with_pieces", true}})
          .body);
  EXPECT_EQ(same["tokens"], tokens["tokens"]);
  EXPECT_EQ(same["token_strs"].size(), tokens["tokens"].size());
  const Json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const Json prompt =
      Json::parse(fixture.Post("/apply-template", Json{{"messages", messages}}).body);
  EXPECT_EQ(prompt["prompt"], "<|begin|><|user|>Hi<|end|><|assistant|>");
  const Json chat = Json::parse(fixture.Post("/tokenize", Json{{"messages", messages}}).body);
  EXPECT_GT(chat["count"], 3);
  ExpectError(fixture.Post("/tokenize", Json{{"messages", messages}, {"add_special_tokens", true}}),
              400, "", "add_special_tokens");
  ExpectError(fixture.Post("/tokenize", Json::object()), 400, "", "prompt");
  ExpectError(fixture.Post("/detokenize", Json{{"tokens", {-1}}}), 400, "");
  ExpectError(fixture.Post("/detokenize", Json{{"tokens", {5000}}}), 400, "");
}

/// A model that guesses for itself is right each time: the 23 tokens behind the first are six
/// steps.
TEST(ModelServer, CountsGuesses) {
  ServeOptions options = Options();
  options.loop.engine.draft = {DraftOptions::kModel, Storyteller(), 3};
  const Fixture plain, fixture(std::move(options));
  const Json want = Json::parse(plain.Post("/v1/chat/completions", Chat()).body);
  const Json got = Json::parse(fixture.Post("/v1/chat/completions", Chat()).body);
  EXPECT_EQ(got["choices"], want["choices"]);
  const std::string metrics = fixture.Get("/metrics").body;
  const std::string labels = "{model_name=\"storyteller\",engine=\"0\"";
  const auto has = [&](const std::string& line) {
    return metrics.find("\nvllm:spec_decode_num_" + line + "\n") != std::string::npos;
  };
  EXPECT_TRUE(has("drafts_total" + labels + "} 6"));
  EXPECT_TRUE(has("draft_tokens_total" + labels + "} 17"));
  EXPECT_TRUE(has("accepted_tokens_total" + labels + "} 17"));
  EXPECT_TRUE(has("accepted_tokens_per_pos_total" + labels + ",position=\"2\"} 5"));
}

TEST(ModelServer, CountsWhatItDoes) {
  const Fixture fixture;
  const Json body = Json::parse(fixture.Post("/v1/chat/completions", Chat()).body);
  fixture.PostBytes("/v1/chat/completions", "{");
  const Answer answer = fixture.Get("/metrics");
  EXPECT_TRUE(answer.Has("Content-Type: text/plain; version=0.0.4"));
  const std::string labels = "{model_name=\"storyteller\",engine=\"0\"";
  const auto has = [&](const std::string& line) {
    return answer.body.find("\n" + line + "\n") != std::string::npos;
  };
  for (const std::string prefix : {"vllm:", "oort:"}) {
    EXPECT_TRUE(has(prefix + "generation_tokens_total" + labels + "} 24"));
    EXPECT_TRUE(has(prefix + "prompt_tokens_total" + labels + "} " +
                    body["usage"]["prompt_tokens"].dump()));
    EXPECT_TRUE(has(prefix + "num_requests_running" + labels + "} 0"));
    EXPECT_TRUE(has(prefix + "request_success_total" + labels + ",finished_reason=\"length\"} 1"));
    EXPECT_TRUE(has(prefix + "request_rejected_total" + labels + ",reason=\"invalid\"} 1"));
    EXPECT_TRUE(has(prefix + "time_to_first_token_seconds_count" + labels + "} 1"));
    EXPECT_TRUE(has(prefix + "e2e_request_latency_seconds_bucket" + labels + ",le=\"+Inf\"} 1"));
    EXPECT_TRUE(has(prefix + "request_inference_time_seconds_count" + labels + "} 1"));
    EXPECT_TRUE(has(prefix + "request_params_max_tokens_sum" + labels + "} 24"));
    EXPECT_TRUE(has(prefix + "request_max_num_generation_tokens_sum" + labels + "} 24"));
    // The step that read the prompt gave the first token.
    EXPECT_TRUE(has(prefix + "iteration_tokens_total_bucket" + labels + ",le=\"1\"} 23"));
    EXPECT_TRUE(has(prefix + "iteration_tokens_total_bucket" + labels + ",le=\"16384\"} 24"));
    EXPECT_TRUE(has(prefix + "iteration_tokens_total_count" + labels + "} 24"));
    const int64_t prompt = body["usage"]["prompt_tokens"];
    EXPECT_TRUE(
        has(prefix + "iteration_tokens_total_sum" + labels + "} " + std::to_string(prompt + 24)));
  }
}

/// Dashboards ask for these names: one that goes, or is new, is meant.
TEST(ModelServer, MeasuresUnderTheseNames) {
  const Fixture fixture;
  std::istringstream text(fixture.Get("/metrics").body);
  std::map<std::string, std::set<std::string>> got;  // by prefix
  for (std::string line; std::getline(text, line);) {
    const std::string type = "# TYPE ";
    if (!line.starts_with(type)) continue;
    const size_t colon = line.find(':');
    EXPECT_TRUE(
        got[line.substr(type.size(), colon - type.size())].insert(line.substr(colon + 1)).second)
        << line;
  }
  const std::set<std::string> want = {
      "blocks_cached gauge",
      "blocks_total gauge",
      "blocks_used gauge",
      "connections gauge",
      "e2e_request_latency_seconds histogram",
      "generation_tokens_total counter",
      "gpu_cache_usage_perc gauge",
      "inter_token_latency_seconds histogram",
      "iteration_tokens_total histogram",
      "kv_cache_usage_perc gauge",
      "log_lines_dropped_total counter",
      "num_preemptions_total counter",
      "num_requests_running gauge",
      "num_requests_swapped gauge",
      "num_requests_waiting gauge",
      "prefix_cache_hits_total counter",
      "prefix_cache_queries_total counter",
      "prompt_tokens_total counter",
      "request_decode_time_seconds histogram",
      "request_generation_tokens histogram",
      "request_inference_time_seconds histogram",
      "request_max_num_generation_tokens histogram",
      "request_params_max_tokens histogram",
      "request_params_n histogram",
      "request_prefill_time_seconds histogram",
      "request_prompt_tokens histogram",
      "request_queue_time_seconds histogram",
      "request_rejected_total counter",
      "request_success_total counter",
      "request_time_per_output_token_seconds histogram",
      "spec_decode_num_accepted_tokens_per_pos_total counter",
      "spec_decode_num_accepted_tokens_total counter",
      "spec_decode_num_draft_tokens_total counter",
      "spec_decode_num_drafts_total counter",
      "steps_total counter",
      "time_per_output_token_seconds histogram",
      "time_to_first_token_seconds histogram",
  };
  EXPECT_EQ(got, (std::map<std::string, std::set<std::string>>{{"oort", want}, {"vllm", want}}));
}

TEST(ModelServer, LogsNoWordOfAPrompt) {
  std::mutex mutex;
  std::string log;
  ServeOptions options = Options();
  options.log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    log.append(line).append("\n");
  };
  {
    const Fixture fixture(std::move(options));
    EXPECT_EQ(fixture.Post("/v1/chat/completions?query", Chat("my secret"), "X-Request-Id: r1\r\n")
                  .status,
              200);
    fixture.PostBytes("/v1/chat/completions", R"({"my secret": 1})");
  }
  EXPECT_NE(log.find("POST /v1/chat/completions 200 "), std::string::npos) << log;
  EXPECT_NE(log.find(" request=r1 key=0 prompt_tokens="), std::string::npos) << log;
  EXPECT_NE(log.find(" tokens=24 "), std::string::npos) << log;
  EXPECT_NE(log.find("POST /v1/chat/completions 400 "), std::string::npos) << log;
  EXPECT_EQ(log.find("secret"), std::string::npos) << log;
  EXPECT_EQ(log.find("query"), std::string::npos) << log;
}

TEST(ModelServer, HasPagesThatRunNothingButThemselves) {
  const Fixture fixture;
  ServeOptions options = Options();
  options.page = false;
  const Fixture without(std::move(options));
  for (const std::string path : {"/", "/dashboard"}) {
    const Answer page = fixture.Get(path);
    EXPECT_EQ(page.status, 200);
    EXPECT_TRUE(page.Has("Content-Type: text/html"));
    EXPECT_TRUE(page.Has("Content-Security-Policy: default-src 'none'; script-src 'sha256-"));
    EXPECT_TRUE(page.Has("X-Content-Type-Options: nosniff\r\n"));
    EXPECT_NE(page.body.find("<!doctype html>"), std::string::npos);
    EXPECT_EQ(page.body.find("innerHTML"), std::string::npos);
    EXPECT_LT(page.body.size(), 60'000u);
    const size_t tag = page.head.find("ETag: ") + 6;
    const std::string value = page.head.substr(tag, page.head.find("\r\n", tag) - tag);
    EXPECT_EQ(fixture.Get(path, "If-None-Match: " + value + "\r\n").status, 304);
    ExpectError(without.Get(path), 404, "");
  }
}

TEST(ModelServer, AStormOfDisconnectsLeavesNoBlockBehind) {
  const Fixture fixture;
  const std::string requests[] = {
      Fixture::PostText("/v1/completions", Endless().dump()),
      Fixture::PostText("/v1/chat/completions", Chat().dump()),
      Fixture::PostText("/v1/completions", R"({"prompt":"Once","n":3,"max_tokens":100})"),
      Fixture::PostText("/tokenize", R"({"prompt":"Once"})")};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      unsigned state = seed;
      const auto random = [&] { return (state = state * 1664525 + 1013904223) >> 16; };
      for (int i = 0; i < 50; ++i) {
        RawClient client(fixture.server.port());
        const std::string& request = requests[random() % std::size(requests)];
        client.Send(random() % 4 == 0 ? request.substr(0, random() % request.size()) : request);
        if (random() % 2) client.Receive(std::chrono::milliseconds(random() % 8));
        if (random() % 3 == 0) client.HalfClose();
        if (random() % 2) client.Reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] {
    const EngineStats stats = fixture.server.stats();
    return stats.running == 0 && stats.waiting == 0 && fixture.server.connections() == 0;
  }));
  EXPECT_EQ(fixture.server.stats().used_blocks, 0);
  EXPECT_EQ(fixture.Post("/v1/chat/completions", Chat()).status, 200);
}

}  // namespace
}  // namespace oort::serve
