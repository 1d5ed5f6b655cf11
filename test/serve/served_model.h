// SPDX-License-Identifier: MIT
// A server with the storyteller behind it, and what its tests say to it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kit/paths.h"
#include "serve/model_server.h"
#include "serve/raw_client.h"

namespace oort::serve {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Answer = RawClient::Answer;

inline bool Eventually(const std::function<bool()>& is) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

inline std::shared_ptr<const LanguageModel> Storyteller() {
  static const auto model =
      LanguageModel::Load(SourceTree() / "models/storyteller", {.exact = true});
  return model;
}

inline ServeOptions Options() {
  ServeOptions options;
  options.port = 0;
  options.served.model = Storyteller();
  options.served.name = "storyteller";
  options.loop.engine.threads = 1;
  options.version = "1.2.3";
  return options;
}

struct Fixture {
  explicit Fixture(ServeOptions options = Options()) : server(std::move(options)) {}
  ModelServer server;

  Answer Ask(const std::string& request) const {
    RawClient client(server.port());
    client.Send(request);
    return client.ReceiveAnswer();
  }
  Answer Get(const std::string& path, const std::string& fields = "") const {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
  }
  Answer PostBytes(const std::string& path, const std::string& body) const {
    return Ask(PostText(path, body));
  }
  Answer Post(const std::string& path, const Json& body, const std::string& fields = "") const {
    return Ask(PostText(path, body.dump(), fields));
  }
  static std::string PostText(const std::string& path, const std::string& body,
                              const std::string& fields = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
           fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
};

inline Json Chat(const std::string& text = "Tell me a story about a fox.") {
  return {{"messages", {{{"role", "user"}, {"content", text}}}},
          {"temperature", 0},
          {"max_tokens", 24}};
}

inline Json Endless() {
  return {{"prompt", "Once"}, {"max_tokens", 480}, {"ignore_eos", true}, {"stream", true}};
}

/// The data of the events of a stream, "[DONE]" included.
inline std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    const std::string event = body.substr(at, end - at);
    if (event.starts_with("data: ")) events.push_back(event.substr(6));
    at = end + 2;
  }
  return events;
}

inline void ExpectError(const Answer& answer, int status, const std::string& code,
                        const std::string& param = "") {
  EXPECT_EQ(answer.status, status) << answer.body;
  const Json body = Json::parse(answer.body, nullptr, false);
  ASSERT_TRUE(body.is_object() && body.contains("error")) << answer.body;
  const Json& error = body["error"];
  EXPECT_TRUE(error.contains("type") && error.contains("message")) << answer.body;
  EXPECT_EQ(error["code"], code.empty() ? Json() : Json(code)) << answer.body;
  if (!param.empty()) {
    EXPECT_EQ(error["param"], param) << answer.body;
  }
}

}  // namespace oort::serve
