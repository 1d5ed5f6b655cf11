// SPDX-License-Identifier: MIT
// Ollama's and Anthropic's routes.
#include "serve/served_model.h"

namespace oort::serve {
namespace {

TEST(AdapterRoutes, AnswersAsOllamaDoes) {
  const Fixture fixture;
  const std::string text = Json::parse(
      fixture.Post("/v1/chat/completions", Chat()).body)["choices"][0]["message"]["content"];
  Json request = {{"model", "storyteller:latest"},
                  {"messages", Chat()["messages"]},
                  {"stream", false},
                  {"options", {{"temperature", 0}, {"num_predict", 24}, {"num_ctx", 4096}}}};
  const Json whole = Json::parse(fixture.Post("/api/chat", request).body);
  EXPECT_EQ(whole["message"]["content"], text) << whole;
  EXPECT_EQ(whole["done"], true);
  EXPECT_EQ(whole["done_reason"], "length");
  EXPECT_EQ(whole["eval_count"], 24);
  EXPECT_GT(whole["prompt_eval_count"], 3);
  request.erase("stream");  // streams unless told
  const Answer stream = fixture.Post("/api/chat", request);
  EXPECT_TRUE(stream.Has("Content-Type: application/x-ndjson\r\n"));
  std::istringstream lines(stream.body);
  std::string joined;
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = Json::parse(line);
    joined += last["message"]["content"];
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(last["done"], true);
  request.erase("messages");
  request["prompt"] = Chat()["messages"][0]["content"];
  request["stream"] = false;
  EXPECT_EQ(Json::parse(fixture.Post("/api/generate", request).body)["response"], text);
  request["raw"] = true;
  EXPECT_NE(Json::parse(fixture.Post("/api/generate", request).body)["response"], text);
  request["system"] = "Be brief.";
  EXPECT_EQ(fixture.Post("/api/generate", request).status, 400);
  request.erase("system");
  EXPECT_EQ(Json::parse(fixture.Get("/api/tags").body)["models"][0]["name"], "storyteller");
  request["options"]["mirostat"] = 1;
  const Answer refused = fixture.Post("/api/generate", request);
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(Json::parse(refused.body)["error"].is_string()) << refused.body;
}

TEST(AdapterRoutes, AnswersAsAnthropicDoes) {
  const Fixture fixture;
  const std::string text = Json::parse(
      fixture.Post("/v1/chat/completions", Chat()).body)["choices"][0]["message"]["content"];
  Json request = Chat();
  request["model"] = "storyteller";
  request["messages"][0]["content"] = {{{"type", "text"},
                                        {"text", Chat()["messages"][0]["content"]},
                                        {"cache_control", {{"type", "ephemeral"}}}}};
  const Json whole = Json::parse(fixture.Post("/v1/messages", request).body);
  EXPECT_EQ(whole["type"], "message") << whole;
  EXPECT_EQ(whole["content"][0]["text"], text);
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
  EXPECT_EQ(whole["usage"]["output_tokens"], 24);
  Json counted = request;
  counted.erase("max_tokens");
  EXPECT_EQ(fixture.Post("/v1/messages/count_tokens", counted).status, 200);
  counted["model"] = "another";
  EXPECT_EQ(fixture.Post("/v1/messages/count_tokens", counted).status, 404);
  request["stop_sequences"] = {text.substr(text.size() / 2, 4)};
  const Json stopped = Json::parse(fixture.Post("/v1/messages", request).body);
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], request["stop_sequences"][0]);
  request.erase("stop_sequences");
  request["stream"] = true;
  const Answer stream = fixture.Post("/v1/messages", request);
  EXPECT_TRUE(stream.body.starts_with("event: message_start\ndata: {")) << stream.body;
  std::string joined;
  size_t at = 0;
  while ((at = stream.body.find("event: content_block_delta\ndata: ", at)) != std::string::npos) {
    at += 33;
    joined += Json::parse(stream.body.substr(at, stream.body.find('\n', at) - at))["delta"]["text"];
  }
  EXPECT_EQ(joined, text);
  EXPECT_NE(stream.body.find("event: message_stop\n"), std::string::npos);
  request.erase("max_tokens");
  const Answer refused = fixture.Post("/v1/messages", request);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "invalid_request_error") << refused.body;
}

}  // namespace
}  // namespace oort::serve
