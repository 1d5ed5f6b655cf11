// SPDX-License-Identifier: MIT
// A server under load: for ThreadSanitizer, which sees what its threads do to each other.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "serve/served_model.h"

namespace oort::serve {
namespace {

const std::string kKey = "Authorization: Bearer kept\r\n";

/// The storyteller, with few at a time, and a second one that is loaded when somebody asks for it.
ServeOptions LoadOptions() {
  ServeOptions options = Options();
  options.loop.engine.threads = 2;
  options.loop.engine.most_running = 3;
  options.loop.engine.cache_tokens = 512;
  options.access.keys = ApiKeys({"kept", "first"});
  LanguageSource second;
  second.name = "second";
  second.load = [pattern = Options()] { return LanguageSetup{pattern.served, pattern.loop}; };
  options.models.push_back(std::move(second));
  return options;
}

Json ShortChat(int kind) {
  Json request = Chat("Tell me a story about " + std::string(kind % 2 == 0 ? "a fox." : "a dog."));
  request["max_tokens"] = 8 + kind;
  return request;
}

/// The text at a place of an answer. An exception would end the program without a reason, since
/// threads ask.
std::string TextAt(const std::string& body, const char* place, const std::string& otherwise) {
  const Json parsed = Json::parse(body, nullptr, false);
  const Json::json_pointer pointer(place);
  const bool is_there = parsed.is_object() && parsed.contains(pointer);
  return is_there && parsed.at(pointer).is_string() ? parsed.at(pointer).get<std::string>()
                                                    : otherwise;
}

std::string TextOf(const Answer& answer) {
  return TextAt(answer.body, "/choices/0/message/content", answer.body);
}

std::string JoinedEvents(const Answer& answer) {
  std::string joined;
  for (const std::string& event : Events(answer.body)) {
    if (event == "[DONE]") return joined;
    const bool is_chunk = event.find("\"choices\"") != std::string::npos;
    joined += TextAt(event, "/choices/0/delta/content", is_chunk ? "" : event);
  }
  return joined + " and no end";
}

/// Asks for everything in turns. Whoever asks is answered as if nobody else did.
class LoadClient {
 public:
  LoadClient(const Fixture& fixture, const std::vector<std::string>& texts, int number)
      : fixture_(fixture), texts_(texts), number_(number) {}

  void Run(int requests) {
    for (int i = 0; i < requests; ++i) Ask(number_ + i);
  }

 private:
  static constexpr const char* kChats = "/v1/chat/completions";

  Answer Post(const std::string& path, const Json& body) const {
    return fixture_.Post(path, body, kKey);
  }

  void Ask(int turn) {
    const int kind = turn % static_cast<int>(texts_.size());
    Json chat = ShortChat(kind);
    switch (turn % 7) {
      case 0: EXPECT_EQ(TextOf(Post(kChats, chat)), texts_[static_cast<size_t>(kind)]); break;
      case 1:
        chat["stream"] = true;
        EXPECT_EQ(JoinedEvents(Post(kChats, chat)), texts_[static_cast<size_t>(kind)]);
        break;
      case 2: {
        const Answer held =
            Post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 6}, {"regex", "[a-c]+"}});
        const std::string text = TextAt(held.body, "/choices/0/text", held.body);
        EXPECT_EQ(text.find_first_not_of("abc"), std::string::npos) << text;
        break;
      }
      case 3: Leave(); break;
      case 4: EXPECT_EQ(Post(kChats, Json::array()).status, 400); break;
      case 5:
        chat["model"] = "second";
        EXPECT_EQ(TextOf(Post(kChats, chat)), texts_[static_cast<size_t>(kind)]);
        break;
      default: EXPECT_EQ(fixture_.Get("/metrics", kKey).status, 200);
    }
  }

  /// In the middle of a stream, and before a whole answer.
  void Leave() const {
    RawClient stream(fixture_.server.port()), whole(fixture_.server.port());
    stream.Send(Fixture::PostText("/v1/completions", Endless().dump(), kKey));
    Json request = Endless();
    request.erase("stream");
    whole.Send(Fixture::PostText("/v1/completions", request.dump(), kKey));
    EXPECT_NE(stream.Receive(), "");
    stream.Reset();
    whole.HalfClose();
  }

  const Fixture& fixture_;
  const std::vector<std::string>& texts_;
  int number_;
};

TEST(ServerLoad, EveryClientIsAnsweredAsIfItWereAlone) {
  std::vector<std::string> texts;
  {
    const Fixture alone;
    for (int kind = 0; kind < 4; ++kind) {
      texts.push_back(TextOf(alone.Post("/v1/chat/completions", ShortChat(kind))));
      ASSERT_FALSE(texts.back().empty());
    }
  }
  Fixture fixture(LoadOptions());
  constexpr int kClients = 4, kRequests = 14;
  std::atomic<int> left = kClients;
  std::vector<std::thread> threads;
  for (int client = 0; client < kClients; ++client) {
    threads.emplace_back([&, client] {
      LoadClient(fixture, texts, client * 3).Run(kRequests);
      --left;
    });
  }
  // Meanwhile keys change, and somebody looks.
  for (int turn = 0; left > 0; ++turn) {
    fixture.server.SetKeys(ApiKeys({"kept", turn % 2 == 0 ? "second" : "first"}));
    EXPECT_LE(fixture.server.stats().running, 3);
    std::this_thread::sleep_for(5ms);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fixture.server.Look("second").loads, 1);
  // One that is computed when the server is told to end is answered.
  EXPECT_TRUE(Eventually([&] {
    const EngineStats stats = fixture.server.stats();
    return fixture.server.connections() == 0 && stats.running + stats.waiting == 0;
  }));
  const int64_t steps = fixture.server.stats().steps;
  RawClient last(fixture.server.port());
  last.Send(Fixture::PostText("/v1/chat/completions", ShortChat(1).dump(), kKey));
  EXPECT_TRUE(Eventually([&] { return fixture.server.stats().steps > steps; }));
  EXPECT_TRUE(fixture.server.Drain(60s));
  const Answer answer = last.ReceiveAnswer();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(TextOf(answer), texts[1]);
  EXPECT_EQ(fixture.server.stats().used_blocks, 0);
  EXPECT_EQ(fixture.server.connections(), 0);
}

}  // namespace
}  // namespace oort::serve
