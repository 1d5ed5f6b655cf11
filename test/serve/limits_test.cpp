// SPDX-License-Identifier: MIT
// Every limit that docs/serving.md and the request's fields have, asked for one more than it
// allows.
#include <ifaddrs.h>
#include <net/if.h>

#include <optional>

#include "serve/served_model.h"

namespace oort::serve {
namespace {

std::string Repeat(const std::string& text, size_t count, const std::string& between = "") {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += (i > 0 ? between : "") + text;
  return all;
}

const std::string kMessage = R"({"role":"user","content":"Hi"})";
const std::string kChat = R"("messages":[)" + kMessage + "],\"max_tokens\":1";

std::string Biases(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  return "{" + text + "}";
}

TEST(ServerLimits, RequestsBeyondThemAreRefused) {
  const Fixture fixture;
  const std::string parts = Repeat(R"({"type":"text","text":"a"})", 4097, ",");
  const struct {
    const char* what;
    std::string chat, completion;  ///< the body's members; one of the two
  } cases[] = {
      {"JSON depth", "\"metadata\":" + Repeat("[", 70) + Repeat("]", 70) + "," + kChat, ""},
      {"messages", "\"messages\":[" + Repeat(kMessage, 4097, ",") + "]", ""},
      {"parts", R"("messages":[{"role":"user","content":[)" + parts + "]}]", ""},
      {"n", kChat + R"(,"n":65)", ""},
      {"n of CVE-2026-34756", kChat + R"(,"n":1000000)", ""},
      {"prompts", "", "\"prompt\":[" + Repeat("\"a\"", 65, ",") + "]"},
      {"n times prompts", "", R"("prompt":["a","b"],"n":33)"},
      {"best_of", "", R"("prompt":"a","best_of":17)"},
      {"stops", kChat + ",\"stop\":[" + Repeat("\"a\"", 17, ",") + "]", ""},
      {"bytes of stops", kChat + ",\"stop\":[\"" + Repeat("a", 4097) + "\"]", ""},
      {"logit_bias", kChat + ",\"logit_bias\":" + Biases(1025), ""},
      {"top_logprobs", kChat + R"(,"logprobs":true,"top_logprobs":21)", ""},
      {"logprobs", "", R"("prompt":"a","logprobs":1000)"},
      {"size of a grammar", kChat + ",\"grammar\":\"" + Repeat("#", 70'000) + "\"", ""},
      {"left recursion", kChat + R"(,"grammar":"root ::= root")", ""},
      {"depth of a grammar", kChat + ",\"grammar\":\"root ::= " + Repeat("(", 60'000) + "\"", ""},
      {"counts of a pattern", kChat + R"(,"guided_regex":"a{1,1001}")", ""},
      {"a template of its own", kChat + R"(,"chat_template":"{{ messages }}")", ""},
      {"context", "", "\"prompt\":\"" + Repeat("fox ", 2000) + "\""},
      {"negative counts", kChat + R"(,"n":-1)", ""},
      {"2^63", kChat + R"(,"seed":9223372036854775808)", ""},
      {"no number", kChat + R"(,"temperature":1e999)", ""},
      {"a number as text", kChat + R"(,"n":"1")", ""},
      {"half a character", R"("messages":[{"role":"user","content":"\ud800"}])", ""},
      {"a key twice", kChat + R"(,"n":1,"n":1)", ""},
  };
  for (const auto& [what, chat, completion] : cases) {
    const Answer answer = chat.empty()
                              ? fixture.PostBytes("/v1/completions", "{" + completion + "}")
                              : fixture.PostBytes("/v1/chat/completions", "{" + chat + "}");
    EXPECT_GE(answer.status, 400) << what << ": " << answer.body.substr(0, 300);
    EXPECT_LT(answer.status, 500) << what << ": " << answer.body.substr(0, 300);
    EXPECT_NE(answer.body.find("\"message\""), std::string::npos) << what;
  }
  EXPECT_EQ(fixture.Post("/v1/chat/completions", Chat()).status, 200);
}

TEST(ServerLimits, ManySmallValuesAreReadOnce) {
  // A reader that looks at the whole list behind each of its members would take an hour.
  const Fixture fixture;
  const std::string many = "{\"metadata\":[" + Repeat("{}", 300'000, ",") + "]}";
  ASSERT_LT(many.size(), openai::Limits().body_bytes);
  ExpectError(fixture.PostBytes("/v1/chat/completions", many), 400, "", "messages");
}

TEST(ServerLimits, WhatTheyAllowIsAnswered) {
  const Fixture fixture;
  for (const std::string& members :
       {std::string(R"("n":2)"), "\"stop\":[" + Repeat("\"zq\"", 16, ",") + "]",
        "\"logit_bias\":" + Biases(1024), std::string(R"("logprobs":true,"top_logprobs":20)")}) {
    const Answer answer =
        fixture.PostBytes("/v1/chat/completions", "{" + kChat + "," + members + "}");
    EXPECT_EQ(answer.status, 200) << members.substr(0, 40) << ": " << answer.body.substr(0, 300);
  }
}

/// A template comes with a model from anywhere, whichever route asks for it.
TEST(ServerLimits, TemplatesHaveThemOnEveryRoute) {
  ServeOptions options = Options();
  options.limits.chat_template.output_bytes = 256;
  const Fixture fixture(std::move(options));
  for (const char* route : {"/apply-template", "/tokenize", "/v1/chat/completions"}) {
    const auto ask = [&](size_t letters) {
      return fixture.Post(route, {{"messages", Chat(Repeat("a", letters))["messages"]}});
    };
    EXPECT_EQ(ask(10).status, 200) << route;
    const Answer refused = ask(300);
    EXPECT_EQ(refused.status, 400) << route << ": " << refused.body;
    EXPECT_NE(refused.body.find("chat template"), std::string::npos) << refused.body;
  }
}

TEST(ServerLimits, BodiesAreRefusedBeforeTheyAreRead) {
  const Fixture fixture;
  RawClient client(fixture.server.port());
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 4194305\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 413);
}

/// An address of this machine that is not the loopback's, as another machine would have.
std::optional<in_addr> OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::optional<in_addr> found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    found = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
  }
  freeifaddrs(all);
  return found;
}

TEST(ServerLimits, OneMachineDoesNotTakeAllConnections) {
  const std::optional<in_addr> own = OwnAddress();
  if (!own) GTEST_SKIP() << "this machine has no address but the loopback's";
  http::ServerOptions options;
  options.host = "0.0.0.0";
  options.limits.connections_per_address = 2;
  options.handle = [](const http::Request&, const http::Reply& reply) { reply.Send({}); };
  const http::Server server(std::move(options));
  const auto answered = [&](int socket) {
    static constexpr std::string_view kAsk = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    char first = 0;
    return send(socket, kAsk.data(), kAsk.size(), MSG_NOSIGNAL) > 0 &&
           recv(socket, &first, 1, 0) == 1;
  };
  const auto open_one = [&] {
    const int opened = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server.port());
    address.sin_addr = *own;
    EXPECT_EQ(connect(opened, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return opened;
  };
  const int first = open_one(), second = open_one();
  EXPECT_TRUE(answered(first));
  EXPECT_TRUE(answered(second));
  const int third = open_one();
  EXPECT_FALSE(answered(third));
  RawClient neighbour(server.port());  // this machine's own are not counted
  neighbour.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(neighbour.ReceiveAnswer().status, 200);
  close(first);  // and one that leaves makes room
  EXPECT_TRUE(Eventually([&] {
    const int again = open_one();
    const bool served = answered(again);
    close(again);
    return served;
  }));
  close(second);
  close(third);
}

}  // namespace
}  // namespace oort::serve
