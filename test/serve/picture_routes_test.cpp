// SPDX-License-Identifier: MIT
// Pictures through every API of the server that takes messages.
#include <atomic>
#include <future>

#include "core/problems.h"
#include "kit/files.h"
#include "oort/picture_reader.h"
#include "serve/served_model.h"
#include "text/base64.h"

namespace oort::serve {
namespace {

const std::filesystem::path kCheckpoints = TestData() / "checkpoints";

ServeOptions WithVision() {
  static const auto model = LanguageModel::Load(kCheckpoints / "smolvlm", {.exact = true});
  ServeOptions options = Options();
  options.served.model = model;
  options.served.name = "smolvlm";
  const auto reader = std::make_shared<PictureReader>(model);
  options.served.read_picture = [reader](std::span<const std::byte> file) {
    return reader->Read(file);
  };
  return options;
}

/// The first thing that transformers says of a picture, and the tokens of what it was asked.
Json Known() {
  const std::string text = testing::FileBytes(kCheckpoints / "smolvlm.json");
  return Json::parse(text)["answers"][0];
}

std::string Base64(const std::string& picture) {
  return text::EncodeBase64(testing::FileBytes(kCheckpoints / picture));
}

std::string DataUrl(const std::string& picture) {
  return "data:image/png;base64," + Base64(picture);
}

Json AboutPicture(const Json& url, const std::string& question) {
  const Json parts = {{{"type", "image_url"}, {"image_url", url}},
                      {{"type", "text"}, {"text", question}}};
  return {{"messages", {{{"role", "user"}, {"content", parts}}}},
          {"temperature", 0},
          {"max_tokens", 10},
          {"ignore_eos", true},
          {"return_token_ids", true}};
}

TEST(PictureRoutes, ChatsAnswerAsTransformers) {
  const Fixture fixture(WithVision());
  const Json known = Known();
  const std::string question = known["question"], file = known["picture"];
  for (const Json& url : {Json(DataUrl(file)), Json({{"url", DataUrl(file)}, {"detail", "low"}})}) {
    const Answer answer = fixture.Post("/v1/chat/completions", AboutPicture(url, question));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json body = Json::parse(answer.body);
    EXPECT_EQ(body["choices"][0]["token_ids"], known["tokens"]) << body;
    EXPECT_EQ(body["usage"]["prompt_tokens"], known["prompt"].size());
  }
  const Json counted = AboutPicture(DataUrl(file), question);
  const Answer tokens = fixture.Post("/tokenize", {{"messages", counted["messages"]}});
  EXPECT_EQ(Json::parse(tokens.body)["tokens"], known["prompt"]) << tokens.body;
}

/// Pages and clients see whether they may send pictures.
TEST(PictureRoutes, ModelsSayThatTheyReadPictures) {
  const Fixture seeing(WithVision());
  const Json model = Json::parse(seeing.Get("/v1/models").body)["data"][0];
  EXPECT_EQ(model["input_modalities"], Json({"text", "image"})) << model;
  const Fixture reading;
  const Json text = Json::parse(reading.Get("/v1/models/storyteller").body);
  EXPECT_EQ(text["input_modalities"], Json({"text"})) << text;
}

/// The same picture by the names of other APIs gives a prompt of as many tokens.
TEST(PictureRoutes, OtherApisTakePictures) {
  const Fixture fixture(WithVision());
  const Json known = Known();
  const std::string question = known["question"], file = known["picture"];
  const size_t prompt = known["prompt"].size();
  const Json options = {{"num_predict", 2}, {"temperature", 0}};
  const Json ollama = {{"stream", false}, {"options", options}};
  Json chat = ollama, generate = ollama;
  chat["messages"] = {{{"role", "user"}, {"content", question}, {"images", {Base64(file)}}}};
  generate["prompt"] = question;
  generate["images"] = {Base64(file)};
  for (const auto& [path, body] : {std::pair("/api/chat", chat), {"/api/generate", generate}}) {
    const Answer answer = fixture.Post(path, body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(answer.body)["prompt_eval_count"], prompt) << path;
  }
  const Json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", Base64(file)}};
  const Json blocks = {{{"type", "image"}, {"source", source}},
                       {{"type", "text"}, {"text", question}}};
  const Json messages = {{{"role", "user"}, {"content", blocks}}};
  const Answer counted = fixture.Post("/v1/messages/count_tokens", {{"messages", messages}});
  EXPECT_EQ(Json::parse(counted.body)["input_tokens"], prompt) << counted.body;
  const Json items = {{{"type", "input_image"}, {"image_url", DataUrl(file)}},
                      {{"type", "input_text"}, {"text", question}}};
  const Answer response =
      fixture.Post("/v1/responses",
                   {{"input", {{{"role", "user"}, {"content", items}}}}, {"max_output_tokens", 2}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(Json::parse(response.body)["usage"]["input_tokens"], prompt) << response.body;
}

/// What is wrong with a picture is said of the field that the client sent, and of no other API's.
void ExpectBlamed(const Answer& answer, const std::string& field, const std::string& says) {
  EXPECT_EQ(answer.status, 400) << answer.body;
  const Json body = Json::parse(answer.body);
  const std::string message = body["error"]["message"];
  EXPECT_EQ(message.rfind(Quote(field), 0), 0u) << message;
  EXPECT_NE(message.find(says), std::string::npos) << message;
  EXPECT_EQ(message.find("url.url"), std::string::npos) << message;
}

TEST(PictureRoutes, AnthropicsErrorsNameItsFields) {
  const Fixture fixture(WithVision());
  const auto picture = [](const std::string& data, const std::string& type = "image/png") {
    const Json source = {{"type", "base64"}, {"media_type", type}, {"data", data}};
    return Json({{"type", "image"}, {"source", source}});
  };
  const auto ask = [&](const Json& blocks) {
    // A result of a tool is a message of its own in OpenAI's form: later ones have other places.
    const Json result = {{"type", "tool_result"}, {"tool_use_id", "1"}, {"content", "7"}};
    const Json first = {{"role", "user"}, {"content", Json::array({result, result})}};
    const Json messages = Json::array({first, Json{{"role", "user"}, {"content", blocks}}});
    return fixture.Post("/v1/messages", {{"max_tokens", 2}, {"messages", messages}});
  };
  const Json text = {{"type", "text"}, {"text", "What?"}};
  const std::string sound = Base64("vision_tall.png");
  ExpectBlamed(ask(Json::array({text, picture("?")})), "messages[1].content[1].source.data",
               "not base64");
  ExpectBlamed(ask(Json::array({picture("bm8gcGljdHVyZQ==")})),
               "messages[1].content[0].source.data", "");
  ExpectBlamed(ask(Json::array({picture(sound, "image/png,")})),
               "messages[1].content[0].source.media_type", "no media type");
  Json many = Json::array();
  while (many.size() < 17) many.push_back(picture(sound));
  ExpectBlamed(ask(many), "messages[1].content[16].source", "one picture more");
  // Behind what is no part in OpenAI's form.
  const Json call = {{"type", "tool_result"}, {"tool_use_id", "1"}, {"content", "7"}};
  ExpectBlamed(ask(Json::array({call, text, picture("?")})), "messages[1].content[2].source.data",
               "not base64");
  ExpectBlamed(ask(Json::array({call, Json{{"type", "text"}}})), "messages[1].content[1].text",
               "missing");
  // What a tool answers may be a picture.
  const auto answered = [&](const std::string& data) {
    return Json::array({text, Json{{"type", "tool_result"},
                                   {"tool_use_id", "1"},
                                   {"content", Json::array({text, picture(data)})}}});
  };
  ExpectBlamed(ask(answered("?")), "messages[1].content[1].content[1].source.data", "not base64");
  const Answer answer = ask(answered(sound));
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST(PictureRoutes, ErrorsOfResponsesNameItsFields) {
  const Fixture fixture(WithVision());
  const Json text = {{"type", "input_text"}, {"text", "What?"}};
  const auto picture = [](const std::string& url) {
    return Json({{"type", "input_image"}, {"image_url", url}});
  };
  const Json call = {
      {"type", "function_call"}, {"call_id", "1"}, {"name", "look"}, {"arguments", "{}"}};
  const auto ask = [&](const Json& item) {
    // Two calls are one message.
    return fixture.Post("/v1/responses", {{"instructions", "Be brief."},
                                          {"input", Json::array({call, call, item})},
                                          {"max_output_tokens", 2}});
  };
  const auto message = [](const Json& parts) {
    return Json({{"role", "user"}, {"content", parts}});
  };
  const auto output = [](const Json& parts) {
    return Json({{"type", "function_call_output"}, {"call_id", "1"}, {"output", parts}});
  };
  const Json broken = Json::array({text, picture("data:image/png;base64,?")});
  ExpectBlamed(ask(message(broken)), "input[2].content[1].image_url", "not base64");
  ExpectBlamed(ask(message(Json::array({picture("https://a.b/c")}))),
               "input[2].content[0].image_url", "nothing is fetched");
  ExpectBlamed(ask(message(Json::array({picture(DataUrl("vision_tall.png")), text, Json(5)}))),
               "input[2].content[2]", "object");
  ExpectBlamed(ask(output(broken)), "input[2].output[1].image_url", "not base64");
  const Json looked = output(Json::array({text, picture(DataUrl("vision_tall.png"))}));
  const Json input = Json::array({looked, message(Json::array({text}))});
  const Answer answer = fixture.Post("/v1/responses", {{"input", input}, {"max_output_tokens", 2}});
  EXPECT_EQ(answer.status, 200) << answer.body;
}

/// This model's template knows no tools.
TEST(PictureRoutes, ToolsMayAnswerWithPictures) {
  const Fixture fixture(WithVision());
  const Json known = Known();
  const std::string question = known["question"], file = known["picture"];
  const Json asked = AboutPicture(DataUrl(file), question)["messages"][0];
  const Json result = {{"role", "tool"}, {"tool_call_id", "1"}, {"content", asked["content"]}};
  const Json messages = Json::array({result, Json{{"role", "user"}, {"content", "Well?"}}});
  const Json body = {{"messages", messages}};
  const std::string prompt = Json::parse(fixture.Post("/apply-template", body).body)["prompt"];
  const std::string said =
      "User: <tool_response>\n<image>" + question + "\n</tool_response>\n\nWell?";
  EXPECT_NE(prompt.find(said), std::string::npos) << prompt;
  const Answer tokens = fixture.Post("/tokenize", body);
  ASSERT_EQ(tokens.status, 200) << tokens.body;
  EXPECT_GT(Json::parse(tokens.body)["count"], known["prompt"].size());
}

TEST(PictureRoutes, RefusesWhatIsNoPicture) {
  const Fixture fixture(WithVision());
  const std::string chat = "/v1/chat/completions";
  const std::string param = "messages[0].content[0].image_url";
  for (const char* url : {"http://localhost/a.png", "https://localhost/a.png", "file:///etc/passwd",
                          "/etc/passwd", "", "data:image/png", "data:,x", "data:image/png;base64,?",
                          "data:image/png;base64,", "data:image/png;base64,bm8gcGljdHVyZQ=="}) {
    ExpectError(fixture.Post(chat, AboutPicture(url, "What?")), 400, "", param);
  }
  Json many = AboutPicture(DataUrl("vision_tall.png"), "What?");
  Json& parts = many["messages"][0]["content"];
  while (parts.size() < 18) parts.insert(parts.begin(), parts[0]);
  ExpectError(fixture.Post(chat, many), 400, "", "messages[0].content[16].image_url");
  // More than the context has room for.
  Json long_one = AboutPicture(DataUrl("vision_square.png"), "What?");
  Json& long_parts = long_one["messages"][0]["content"];
  for (int i = 0; i < 2; ++i) long_parts.push_back(Json(long_parts[0]));
  ExpectError(fixture.Post(chat, long_one), 400, "context_length_exceeded", "messages");
  EXPECT_EQ(fixture.Post(chat, AboutPicture(DataUrl("vision_tall.png"), "What?")).status, 200);
}

/// A server that counts the pictures that it reads, and does `meanwhile` for each.
ServeOptions WithCount(std::atomic<int>& reads, const std::function<void()>& meanwhile = {}) {
  ServeOptions options = WithVision();
  options.served.read_picture = [read = options.served.read_picture, &reads,
                                 meanwhile](std::span<const std::byte> file) {
    ++reads;
    if (meanwhile) meanwhile();
    return read(file);
  };
  return options;
}

TEST(PictureRoutes, AreNotReadWhenTheTimeIsOver) {
  std::atomic<int> reads = 0;
  ServeOptions options = WithCount(reads);
  options.most_time = 0s;
  const Fixture fixture(std::move(options));
  const Json request = AboutPicture(DataUrl("vision_tall.png"), "What?");
  ExpectError(fixture.Post("/v1/chat/completions", request), 504, "deadline");
  EXPECT_EQ(reads, 0);
}

TEST(PictureRoutes, AreNotReadWhenTheQueueIsFull) {
  std::atomic<int> reads = 0;
  ServeOptions options = WithCount(reads);
  options.loop.engine.most_running = 1;
  options.loop.most_waiting = 1;
  const Fixture fixture(std::move(options));
  const Json request = AboutPicture(DataUrl("vision_tall.png"), "What?");
  Answer refused;
  int before = 0;
  // Once more where the first came to its end before the third came, or where the queue was not
  // full until then.
  const auto is_unread = [&] { return refused.status == 429 && reads == before; };
  for (int turn = 0; turn < 20 && !is_unread(); ++turn) {
    RawClient running(fixture.server.port()), waiting(fixture.server.port());
    running.Send(Fixture::PostText("/v1/completions", Endless().dump()));
    EXPECT_NE(running.Receive(), "");
    waiting.Send(Fixture::PostText("/v1/completions", Endless().dump()));
    Eventually([&] {
      const EngineStats stats = fixture.server.stats();
      return stats.waiting == 1 || stats.running == 0;
    });
    before = reads;
    refused = fixture.Post("/v1/chat/completions", request);
  }
  ExpectError(refused, 429, "queue_full");
  EXPECT_TRUE(refused.Has("Retry-After: 1\r\n"));
  EXPECT_EQ(reads, before);
}

TEST(PictureRoutes, AreNotReadForWhoHasLeft) {
  std::atomic<int> reads = 0;
  std::atomic<bool> left = false;
  {
    const Fixture fixture(WithCount(reads, [&] { Eventually([&] { return left.load(); }); }));
    Json request = AboutPicture(DataUrl("vision_tall.png"), "What?");
    Json& parts = request["messages"][0]["content"];
    parts.insert(parts.begin(), Json(parts[0]));
    {
      RawClient client(fixture.server.port());
      client.Send(Fixture::PostText("/v1/chat/completions", request.dump()));
      EXPECT_TRUE(Eventually([&] { return reads == 1; }));
    }
    EXPECT_TRUE(Eventually([&] { return fixture.server.connections() == 0; }));
    left = true;
  }  // when it has ended, all is read that ever will be
  EXPECT_EQ(reads, 1);
}

/// Whoever asks for text has it while more pictures are read, and wait, than the server has
/// threads.
TEST(PictureRoutes, HoldUpNobodyElse) {
  std::atomic<int> reads = 0;
  std::promise<void> go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  const Fixture fixture(WithCount(reads, [may_go_on] { may_go_on.wait(); }));
  const Json request = AboutPicture(DataUrl("vision_tall.png"), "What?");
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(fixture.server.port());
    clients.back().Send(Fixture::PostText("/v1/chat/completions", request.dump()));
  }
  EXPECT_TRUE(Eventually([&] { return reads > 0; }));
  const Answer answer = fixture.Post("/v1/chat/completions", Chat("What is an \"image_url\"?"));
  EXPECT_EQ(answer.status, 200) << answer.body;
  go_on.set_value();
  for (RawClient& client : clients) EXPECT_EQ(client.ReceiveAnswer().status, 200);
  EXPECT_EQ(reads, 4);
}

TEST(PictureRoutes, AreRefusedByAModelOfText) {
  const Fixture fixture;
  const std::string url = DataUrl("vision_tall.png");
  ExpectError(fixture.Post("/v1/chat/completions", AboutPicture(url, "What?")), 400, "",
              "messages[0].content[0].image_url");
  const Json ollama = {{"prompt", "What?"}, {"images", {Base64("vision_tall.png")}}};
  EXPECT_EQ(fixture.Post("/api/generate", ollama).status, 400);
}

}  // namespace
}  // namespace oort::serve
