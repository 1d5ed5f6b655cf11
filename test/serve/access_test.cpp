// SPDX-License-Identifier: MIT
// Who may ask: keys, names of the host and pages of other origins, and how others are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kit/errors.h"
#include "kit/files.h"
#include "serve/model_server.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

TEST(ModelServer, TakesWhatCurlCallsAForm) {
  const Fixture fixture;
  const std::string body = Chat().dump();
  const auto ask = [&](const std::string& fields) {
    return fixture.Ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + fields +
                       "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  EXPECT_EQ(ask(form).status, 200);
  EXPECT_EQ(ask("").status, 200);
  // What a page sends has to be what no plain form can be.
  ExpectError(ask(form + "Origin: http://localhost\r\n"), 415, "");
  ExpectError(ask(form + "Referer: http://localhost/\r\n"), 415, "");
  ExpectError(ask(form + "Sec-Fetch-Site: cross-site\r\n"), 415, "");
}

TEST(ModelServer, WantsAKeyWhereThereAreKeys) {
  ServeOptions options = Options();
  options.access.keys = ApiKeys({"first-key", "second-key"});
  const Fixture fixture(std::move(options));
  EXPECT_EQ(fixture.Get("/health").status, 200);
  EXPECT_EQ(fixture.Get("/ready").status, 200);  // balancers have no key
  EXPECT_EQ(fixture.Get("/").status, 200);
  EXPECT_EQ(fixture.Get("/dashboard").status, 200);
  for (const char* path : {"/v1/models", "/metrics", "/version", "/nowhere"}) {
    const Answer answer = fixture.Get(path);
    ExpectError(answer, 401, "invalid_api_key");
    EXPECT_TRUE(answer.Has("WWW-Authenticate: Bearer\r\n"));
    EXPECT_EQ(fixture.Get(path, "Authorization: Bearer first-keY\r\n").status, 401);
    EXPECT_EQ(fixture.Get(path, "Authorization: Bearer first-key2\r\n").status, 401);
    EXPECT_EQ(fixture.Get(path, "Authorization: Bearer \r\n").status, 401);
  }
  ExpectError(fixture.Post("/v1/chat/completions", Chat()), 401, "invalid_api_key");
  EXPECT_EQ(fixture.Get("/v1/models", "Authorization: bearer second-key\r\n").status, 200);
  EXPECT_EQ(fixture.Get("/v1/models", "X-Api-Key: first-key\r\n").status, 200);
  EXPECT_EQ(
      fixture.Post("/v1/chat/completions", Chat(), "Authorization: Bearer first-key\r\n").status,
      200);
}

TEST(ModelServer, TakesOtherKeysWhileItServes) {
  ServeOptions options = Options();
  options.access.keys = ApiKeys({"first", "second"});
  Fixture fixture(std::move(options));
  const auto status = [&](const std::string& key) {
    return fixture.Get("/v1/models", "Authorization: Bearer " + key + "\r\n").status;
  };
  fixture.server.SetKeys(ApiKeys({"third", "second"}));
  EXPECT_TRUE(Eventually([&] { return status("third") == 200; }));
  EXPECT_EQ(status("first"), 401);
  EXPECT_EQ(status("second"), 200);
  fixture.server.SetKeys(ApiKeys());  // would let everybody in
  fixture.server.SetKeys(ApiKeys({"fourth"}));
  EXPECT_TRUE(Eventually([&] { return status("fourth") == 200; }));
  EXPECT_EQ(status("third"), 401);
}

TEST(ModelServer, AKeyKeepsItsNumberAndNoOtherGetsIt) {
  ApiKeys keys({"a", "b"});
  keys.Replace(ApiKeys({"c", "b"}));
  EXPECT_EQ(keys.Find("a"), 0);
  EXPECT_EQ(keys.Find("b"), 2);
  EXPECT_EQ(keys.Find("c"), 3);
  keys.Replace(ApiKeys({"a"}));
  EXPECT_EQ(keys.Find("a"), 4);  // nobody knows whether it is the same person
  EXPECT_EQ(keys.Find("b"), 0);
}

TEST(ModelServer, ReadsKeysFromAFile) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "keys";
  std::ofstream(path) << "# of the team\n\nabc\r\n  \ndef  \n";
  const ApiKeys keys = ApiKeys::FromFile(path);
  EXPECT_EQ(keys.Find("abc"), 1);
  EXPECT_EQ(keys.Find("def"), 2);
  EXPECT_EQ(keys.Find(""), 0);
  EXPECT_EQ(keys.Find("# of the team"), 0);
  EXPECT_EQ(keys.Find("abc" + std::string(400, '\0')), 0);
  std::ofstream(path) << "# nothing\n";
  testing::ExpectThrows([&] { ApiKeys::FromFile(path); }, ErrorCode::kInvalidArgument,
                        "no API key");
  std::ofstream(path) << "a b\n";
  testing::ExpectThrows([&] { ApiKeys::FromFile(path); }, ErrorCode::kInvalidArgument, "space");
  std::filesystem::remove(path);
  testing::ExpectThrows([&] { ApiKeys::FromFile(path); }, ErrorCode::kIo, path.string());
}

TEST(ModelServer, ServesNoStrangers) {
  const Fixture fixture;
  const auto host = [&](const std::string& name) {
    return fixture.Ask("GET /v1/models HTTP/1.1\r\nHost: " + name + "\r\n\r\n").status;
  };
  EXPECT_EQ(host("evil.example"), 403);  // its name was made to point here
  EXPECT_EQ(host("localhost.evil.example:8080"), 403);
  EXPECT_EQ(host("127.evil.example:8080"), 403);
  EXPECT_EQ(host("127.0.0.1.evil.example"), 403);
  EXPECT_EQ(host("localhost:1"), 200);
  EXPECT_EQ(host("127.0.0.1"), 200);
  EXPECT_EQ(host("[::1]:8080"), 200);
  const std::string chat = "/v1/chat/completions";
  ExpectError(fixture.Post(chat, Chat(), "Origin: https://evil.example\r\n"), 403, "wrong_origin");
  ExpectError(fixture.Post(chat, Chat(), "Origin: null\r\n"), 403, "wrong_origin");
  EXPECT_EQ(fixture.Post(chat, Chat(), "Origin: http://localhost\r\n").status, 200);
  ServeOptions open = Options();
  open.host = "0.0.0.0";
  testing::ExpectThrows([&] { ModelServer server(open); }, ErrorCode::kInvalidArgument,
                        "--api-key-file");
  open.allow_open = true;
  EXPECT_EQ(Fixture(open).Get("/health").status, 200);
}

TEST(ModelServer, LetsNamedOriginsRead) {
  ServeOptions options = Options();
  options.access.origins = {"https://good.example"};
  const Fixture fixture(std::move(options));
  const std::string allow = "Access-Control-Allow-Origin: https://good.example\r\n";
  const auto preflight = [&](const std::string& origin) {
    return fixture.Ask("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
                       "\r\n\r\n");
  };
  EXPECT_EQ(preflight("https://good.example").status, 204);
  EXPECT_TRUE(preflight("https://good.example").Has(allow));
  EXPECT_FALSE(preflight("https://evil.example").Has("Access-Control"));
  EXPECT_TRUE(
      fixture.Post("/v1/chat/completions", Chat(), "Origin: https://good.example\r\n").Has(allow));
  EXPECT_FALSE(fixture.Get("/v1/models", "Origin: https://evil.example\r\n").Has("Access-Control"));
}

TEST(ModelServer, LetsNamedOriginsSendWhatTheirClientsSend) {
  ServeOptions options = Options();
  options.access.origins = {"https://good.example"};
  const Fixture fixture(std::move(options));
  const auto allowed = [&](const std::string& asked, const std::string& origin) {
    const Answer answer = fixture.Ask(
        "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
        "\r\nAccess-Control-Request-Headers: " + asked + "\r\n\r\n");
    const std::string name = "Access-Control-Allow-Headers: ";
    const size_t at = answer.head.find(name);
    if (at == std::string::npos) return std::string();
    const size_t begin = at + name.size();
    return answer.head.substr(begin, answer.head.find("\r\n", begin) - begin);
  };
  const std::string good = "https://good.example";
  const std::string sdk = "authorization,content-type,x-stainless-os, X-Oort-Affinity";
  EXPECT_EQ(allowed(sdk, good), sdk);
  EXPECT_EQ(allowed(sdk, "https://evil.example"), "");
  for (const std::string& strange : {std::string("*/*"), std::string("a b"), std::string("a,,b"),
                                     std::string(5000, 'a'), std::string()}) {
    EXPECT_TRUE(allowed(strange, good).starts_with("Authorization, Content-Type")) << strange;
  }
  const Answer read = fixture.Get("/v1/models", "Origin: " + good + "\r\n");
  EXPECT_TRUE(read.Has("Access-Control-Expose-Headers: X-Request-Id, Retry-After")) << read.head;
}

TEST(ModelServer, RefusesInTheFormOfTheApiThatIsAsked) {
  ServeOptions options = Options();
  options.access.keys = ApiKeys({"key"});
  options.access.origins = {"https://good.example"};
  options.http.head_time = options.http.body_time = 1s;
  options.http.all_body_bytes = 1000;
  const Fixture fixture(std::move(options));
  const auto error = [](const Answer& answer) {
    EXPECT_TRUE(answer.Has("X-Request-Id: ")) << answer.head;
    return Json::parse(answer.body, nullptr, false);
  };
  const auto is_openai = [](const Json& body) {
    return body["error"].is_object() && body["error"].contains("code");
  };
  const auto is_anthropic = [](const Json& body) {
    return body.value("type", "") == "error" && body["error"].contains("type");
  };
  const auto is_short = [](const Json& body) { return body["error"].is_string(); };
  const std::string key = "Authorization: Bearer key\r\n",
                    json = "Content-Type: application/json\r\n";
  struct Case {
    const char* path;
    std::function<bool(const Json&)> is_right;
  };
  const Case cases[] = {{"/v1/chat/completions", is_openai},
                        {"/v1/messages", is_anthropic},
                        {"/v1/messages/batches", is_anthropic},
                        {"/api/chat", is_short},
                        {"/api/show", is_short},
                        {"/v2/models/a/infer", is_short},
                        {"/v2/nothing", is_short},
                        {"/v2/rerank", is_openai},
                        {"/rerank", is_openai},
                        {"/v1/nothing", is_openai},
                        {"/nowhere", is_openai}};
  for (const auto& [path, is_right] : cases) {
    const std::string post = "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
    const Json no_key = error(fixture.Ask(post + json + "\r\n"));
    EXPECT_TRUE(is_right(no_key)) << path << no_key;
    const Json type = error(fixture.Ask(post + key + "Content-Type: text/plain\r\n\r\n"));
    EXPECT_TRUE(is_right(type)) << path << type;
    const Json wrong = error(fixture.Ask("DELETE " + post.substr(5) + key + "\r\n"));
    EXPECT_TRUE(is_right(wrong)) << path << wrong;
  }
  // What the HTTP layer refuses.
  const std::string post = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + key + json +
                           "Origin: https://good.example\r\nContent-Length: ";
  const Answer full = fixture.Ask(post + "2000\r\n\r\n" + std::string(2000, 'x'));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(error(full)["error"]["type"], "overloaded_error");
  EXPECT_TRUE(full.Has("Retry-After: "));
  EXPECT_TRUE(full.Has("Access-Control-Allow-Origin: https://good.example\r\n"));
  const Answer slow = fixture.Ask(post + "20\r\n\r\n{");
  EXPECT_EQ(slow.status, 408);
  EXPECT_EQ(error(slow)["error"]["type"], "timeout_error");
  const Answer head = fixture.Ask("POST /v1/messages HT");
  ExpectError(head, 408, "request_timeout");
  EXPECT_EQ(error(head)["error"]["type"], "timeout_error");
  const Answer version = fixture.Ask("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n");
  ExpectError(version, 505, "");
  EXPECT_EQ(error(version)["error"]["type"], "invalid_request_error");
}

}  // namespace
}  // namespace oort::serve
