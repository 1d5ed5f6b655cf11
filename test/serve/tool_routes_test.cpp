// SPDX-License-Identifier: MIT
// Tools through every API of the server, and /v1/responses.
#include "kit/storyteller_with.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

ServeOptions WithTools() {
  static const auto model = LanguageModel::Load(
      testing::StorytellerWith(testing::ToolTemplate("<tool_call>")), {.exact = true});
  ServeOptions options = Options();
  options.served.model = model;
  return options;
}

const Json kSchema = {{"type", "object"},
                      {"properties", {{"city", {{"type", "string"}, {"enum", {"Rome", "Oslo"}}}}}},
                      {"required", {"city"}},
                      {"additionalProperties", false}};
const Json kFunction = {{"name", "weather"}, {"description", "of a city"}, {"parameters", kSchema}};

Json WithCall() {
  Json request = Chat();
  request["max_tokens"] = 100;
  request["tools"] = {{{"type", "function"}, {"function", kFunction}}};
  request["tool_choice"] = "required";
  request["parallel_tool_calls"] = false;
  return request;
}

void ExpectCity(const Json& arguments) {
  EXPECT_TRUE(arguments.value("city", "") == "Rome" || arguments.value("city", "") == "Oslo")
      << arguments;
}

/// The data of named events, in order.
std::vector<Json> NamedEvents(const std::string& body) {
  std::vector<Json> events;
  size_t at = 0;
  while ((at = body.find("\ndata: ", at)) != std::string::npos) {
    at += 7;
    events.push_back(Json::parse(body.substr(at, body.find('\n', at) - at)));
  }
  return events;
}

TEST(ToolRoutes, OpenAiChatsCallTools) {
  const Fixture fixture(WithTools());
  Json request = WithCall();
  const Json whole = Json::parse(fixture.Post("/v1/chat/completions", request).body);
  ASSERT_TRUE(whole.contains("choices")) << whole;
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << whole;
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u) << whole;
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "weather");
  ExpectCity(Json::parse(call["function"]["arguments"].get<std::string>()));

  request["stream"] = true;
  const Answer stream = fixture.Post("/v1/chat/completions", request);
  std::string arguments, finish;
  int names = 0;
  for (const std::string& event : Events(stream.body)) {
    if (event == "[DONE]") continue;
    const Json part = Json::parse(event)["choices"][0];
    for (const Json& delta : part["delta"].value("tool_calls", Json::array())) {
      names += delta["function"].contains("name") ? 1 : 0;
      arguments += delta["function"]["arguments"];
    }
    if (part["finish_reason"].is_string()) finish = part["finish_reason"];
  }
  EXPECT_EQ(names, 1) << stream.body;
  EXPECT_EQ(Json(arguments), call["function"]["arguments"]);
  EXPECT_EQ(finish, "tool_calls");

  // The call and its result go back to the model.
  Json next = Chat();
  next["messages"].push_back(choice["message"]);
  next["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "sunny"}});
  EXPECT_EQ(fixture.Post("/v1/chat/completions", next).status, 200);
  const Json rendered =
      Json::parse(fixture.Post("/apply-template", Json{{"messages", next["messages"]}}).body);
  EXPECT_NE(rendered["prompt"].get<std::string>().find("sunny"), std::string::npos) << rendered;
}

TEST(ToolRoutes, AnthropicMessagesUseTools) {
  const Fixture fixture(WithTools());
  Json request = Chat();
  request["max_tokens"] = 100;
  request["tools"] = {{{"name", "weather"}, {"input_schema", kSchema}}};
  request["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
  const Json whole = Json::parse(fixture.Post("/v1/messages", request).body);
  EXPECT_EQ(whole["stop_reason"], "tool_use") << whole;
  ASSERT_EQ(whole["content"].size(), 1u) << whole;
  const Json& use = whole["content"][0];
  EXPECT_EQ(use["type"], "tool_use");
  EXPECT_EQ(use["name"], "weather");
  ExpectCity(use["input"]);

  request["stream"] = true;
  std::string input;
  for (const Json& event : NamedEvents(fixture.Post("/v1/messages", request).body)) {
    if (event["type"] == "content_block_delta") {
      EXPECT_EQ(event["delta"]["type"], "input_json_delta");
      input += event["delta"]["partial_json"];
    }
  }
  EXPECT_EQ(Json::parse(input), use["input"]);

  Json next = Chat();
  next["messages"].push_back({{"role", "assistant"}, {"content", whole["content"]}});
  next["messages"].push_back(
      {{"role", "user"},
       {"content", {{{"type", "tool_result"}, {"tool_use_id", use["id"]}, {"content", "sunny"}}}}});
  EXPECT_EQ(fixture.Post("/v1/messages", next).status, 200);
  next["messages"][2]["content"][0].erase("tool_use_id");
  EXPECT_EQ(fixture.Post("/v1/messages", next).status, 400);
}

TEST(ToolRoutes, OllamaChatsCallTools) {
  const Fixture fixture(WithTools());
  Json request = {{"messages", Chat()["messages"]},
                  {"tools", {{{"type", "function"}, {"function", kFunction}}}},
                  {"stream", false},
                  {"options", {{"temperature", 0}, {"num_predict", 20}}}};
  const Json whole = Json::parse(fixture.Post("/api/chat", request).body);
  EXPECT_EQ(whole["done"], true) << whole;
  // Its API has no way to force a call: a conversation that had one goes on.
  request["messages"].push_back(
      {{"role", "assistant"},
       {"content", ""},
       {"tool_calls", {{{"function", {{"name", "weather"}, {"arguments", {{"city", "Rome"}}}}}}}}});
  request["messages"].push_back({{"role", "tool"}, {"tool_name", "weather"}, {"content", "sunny"}});
  EXPECT_EQ(fixture.Post("/api/chat", request).status, 200);
}

TEST(ToolRoutes, ResponsesSayWhatChatsDo) {
  const Fixture fixture(WithTools());
  const std::string text = Json::parse(
      fixture.Post("/v1/chat/completions", Chat()).body)["choices"][0]["message"]["content"];
  Json request = {{"model", "storyteller"},
                  {"input", Chat()["messages"][0]["content"]},
                  {"temperature", 0},
                  {"max_output_tokens", 24}};
  const Json whole = Json::parse(fixture.Post("/v1/responses", request).body);
  ASSERT_TRUE(whole.contains("output")) << whole;
  EXPECT_EQ(whole["object"], "response");
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], text);
  EXPECT_EQ(whole["usage"]["output_tokens"], 24);
  EXPECT_EQ(whole["max_output_tokens"], 24);

  request["input"] = {
      {{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", request["input"]}}}}}};
  request["stream"] = true;
  const std::vector<Json> events = NamedEvents(fixture.Post("/v1/responses", request).body);
  ASSERT_GT(events.size(), 6u);
  EXPECT_EQ(events[0]["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(events.back()["response"]["output"][0]["content"], whole["output"][0]["content"]);
  std::string joined;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    if (events[i]["type"] == "response.output_text.delta") joined += events[i]["delta"];
  }
  EXPECT_EQ(joined, text);
}

TEST(ToolRoutes, ResponsesCallTools) {
  const Fixture fixture(WithTools());
  Json tool = kFunction;
  tool["type"] = "function";
  Json request = {{"input", "Hi"},
                  {"tools", {tool}},
                  {"tool_choice", {{"type", "function"}, {"name", "weather"}}},
                  {"temperature", 0}};
  const Json whole = Json::parse(fixture.Post("/v1/responses", request).body);
  EXPECT_EQ(whole["status"], "completed") << whole;
  ASSERT_EQ(whole["output"].size(), 1u) << whole;
  Json call = whole["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "weather");
  ExpectCity(Json::parse(call["arguments"].get<std::string>()));
  request["stream"] = true;
  std::string arguments;
  for (const Json& event : NamedEvents(fixture.Post("/v1/responses", request).body)) {
    if (event["type"] == "response.function_call_arguments.delta") arguments += event["delta"];
  }
  EXPECT_EQ(Json(arguments), call["arguments"]);

  Json next = {
      {"input",
       {{{"role", "user"}, {"content", "Hi"}},
        call,
        {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "sunny"}}}},
      {"max_output_tokens", 4}};
  EXPECT_EQ(fixture.Post("/v1/responses", next).status, 200);
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, Json>>{{"previous_response_id", "resp_1"},
                                                 {"store", true},
                                                 {"background", true},
                                                 {"truncation", "auto"},
                                                 {"include", {"file_search_call.results"}},
                                                 {"reasoning", {{"effort", "high"}}},
                                                 {"colour", 1}}) {
    Json refused = {{"input", "Hi"}, {field, value}};
    EXPECT_EQ(fixture.Post("/v1/responses", refused).status, 400) << field;
  }
  ExpectError(fixture.Post("/v1/responses", Json{{"input", {{{"type", "item_reference"}}}}}), 400,
              "", "input[0].type");
}

/// An error says which field of the request it is, and not what became of that.
TEST(ToolRoutes, ErrorsNameTheFieldsThatWereSent) {
  const Fixture fixture(WithTools());
  const auto responses = [&](Json more, const std::string& param) {
    Json request = {{"input", "Hi"}};
    request.update(more);
    const Answer answer = fixture.Post("/v1/responses", request);
    ExpectError(answer, 400, "", param);
    EXPECT_NE(answer.body.find("'" + param + "'"), std::string::npos) << answer.body;
  };
  responses({{"input", Json::array()}}, "input");
  responses({{"max_output_tokens", int64_t{1} << 40}}, "max_output_tokens");
  responses({{"instructions", "Be kind."}, {"input", {{{"role", "king"}, {"content", "Hi"}}}}},
            "input[0].role");
  responses({{"tools", {{{"type", "function"}, {"name", ""}}}}}, "tools[0].name");
  responses({{"text", {{"format", {{"type", "poem"}}}}}}, "text.format.type");
  const Answer late = fixture.Post("/v1/responses", Json{{"input", std::string(4000, 'a')}});
  ExpectError(late, 400, "context_length_exceeded", "input");

  const auto says = [&](const std::string& path, const Json& request, const std::string& field) {
    const Answer answer = fixture.Post(path, request);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find("'" + field + "'"), std::string::npos) << answer.body;
  };
  const Json messages = Chat()["messages"];
  says("/v1/messages", {{"messages", messages}, {"max_tokens", 4}, {"stop_sequences", {""}}},
       "stop_sequences");
  says("/v1/messages",
       {{"messages", {{{"role", "user"}, {"content", {{{"type", "noise"}}}}}}},
        {"system", "Be kind."},
        {"max_tokens", 4}},
       "messages[0].content[0].type");
  says("/v1/messages", {{"messages", messages}, {"max_tokens", 4}, {"tools", {{{"name", ""}}}}},
       "tools[0].name");
  says("/v1/messages/count_tokens", {{"messages", messages}, {"tools", {{{"name", ""}}}}},
       "tools[0].name");
  says("/api/chat", {{"messages", messages}, {"options", {{"temperature", 3}}}},
       "options.temperature");
  says("/api/generate", {{"prompt", "Hi"}, {"options", {{"repeat_penalty", "no"}}}},
       "options.repeat_penalty");
  says("/api/generate", {{"prompt", "Hi"}, {"raw", true}, {"options", {{"num_predict", 0}}}},
       "options.num_predict");
  says("/api/generate", {{"prompt", "Hi"}, {"images", {"AAAA"}}}, "images[0]");
  says("/api/chat", {{"messages", messages}, {"stop", "a"}}, "stop");  // which it does not have
}

/// The storyteller with a template that ends with `end`.
ServeOptions Ending(const std::string& end) {
  ServeOptions options = Options();
  options.served.model = LanguageModel::Load(
      testing::StorytellerWith("{% for message in messages %}{{ '<|user|>' + message.content }}"
                               "{% endfor %}{{ '<|assistant|>' }}" +
                               end),
      {.exact = true});
  return options;
}

/// What would be ignored is refused; what is so anyway is not.
TEST(ToolRoutes, ThinkingIsSwitchedWhereTheTemplateKnowsIt) {
  const Fixture never(Ending(""));
  const Fixture always(Ending("{{ '<think>' }}"));
  const Fixture either(
      Ending("{{ '<think>' if enable_thinking else 'There is nothing to think about.' }}"));
  int64_t tokens = 0;  // of the prompt that was answered last
  const auto anthropic = [&](const Fixture& fixture, const std::string& type) {
    Json request = Chat();
    request["max_tokens"] = 4;
    request["thinking"] = {{"type", type}};
    const Answer answer = fixture.Post("/v1/messages", request);
    if (answer.status != 200) {
      EXPECT_NE(answer.body.find("'thinking' cannot be"), std::string::npos) << answer.body;
    } else {
      tokens = Json::parse(answer.body)["usage"]["input_tokens"];
    }
    return answer.status;
  };
  const auto ollama = [&](const Fixture& fixture, bool think) {
    const Json request = {{"messages", Chat()["messages"]},
                          {"think", think},
                          {"stream", false},
                          {"options", {{"num_predict", 4}}}};
    const Answer answer = fixture.Post("/api/chat", request);
    if (answer.status == 200) tokens = Json::parse(answer.body)["prompt_eval_count"];
    return answer.status;
  };
  EXPECT_EQ(anthropic(never, "enabled"), 400);
  EXPECT_EQ(anthropic(never, "disabled"), 200);
  EXPECT_EQ(anthropic(never, "adaptive"), 200);
  EXPECT_EQ(anthropic(always, "enabled"), 200);
  EXPECT_EQ(anthropic(always, "disabled"), 400);
  EXPECT_EQ(ollama(never, true), 400);
  EXPECT_EQ(ollama(never, false), 200);
  EXPECT_EQ(ollama(always, true), 200);
  EXPECT_EQ(ollama(always, false), 400);
  // Each way the template says something else.
  EXPECT_EQ(anthropic(either, "enabled"), 200);
  const int64_t thinking = tokens;
  EXPECT_EQ(anthropic(either, "disabled"), 200);
  const int64_t silent = tokens;
  EXPECT_NE(silent, thinking);
  EXPECT_EQ(ollama(either, true), 200);
  EXPECT_EQ(tokens, thinking);
  EXPECT_EQ(ollama(either, false), 200);
  EXPECT_EQ(tokens, silent);
}

/// A template that knows no tools; `system`: what it does with a system message.
ServeOptions WithoutTools(const std::string& system) {
  ServeOptions options = Options();
  options.served.model = LanguageModel::Load(
      testing::StorytellerWith(
          "{% for message in messages %}"
          "{% if message.role not in ['system', 'user', 'assistant'] %}"
          "{{ raise_exception('unknown') }}{% elif message.role == 'system' %}" +
          system +
          "{% else %}{{ '<|' + message.role + '|>' + message.content }}{% endif %}{{ eos_token }}"
          "{% endfor %}{{ '<|assistant|>' }}"),
      {.exact = true});
  return options;
}

std::string PromptOf(const Fixture& fixture, const Json& request) {
  const Json answer = Json::parse(fixture.Post("/apply-template", request).body);
  return answer.value("prompt", answer.dump());
}

Json WithMessages(Json messages) {
  return {{"messages", std::move(messages)},
          {"tools", {{{"type", "function"}, {"function", kFunction}}}}};
}

TEST(ToolRoutes, ModelsWhoseTemplateKnowsNoToolsAreToldOfThem) {
  const Fixture fixture(WithoutTools("{{ '<|system|>' + message.content }}"));
  const Json hi = {{"role", "user"}, {"content", "Hi"}};
  std::string prompt = PromptOf(fixture, WithMessages(Json::array({hi})));
  EXPECT_TRUE(prompt.starts_with("<|system|>You can call these functions")) << prompt;
  const std::string tool = "<tools>\n{\"name\":\"weather\",\"description\":\"of a city\",";
  EXPECT_NE(prompt.find(tool), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("<|user|>Hi"), std::string::npos);
  prompt = PromptOf(fixture, WithMessages({{{"role", "system"}, {"content", "Be kind."}}, hi}));
  EXPECT_TRUE(prompt.starts_with("<|system|>Be kind.\n\nYou can call")) << prompt;

  const Json whole = Json::parse(fixture.Post("/v1/chat/completions", WithCall()).body);
  ASSERT_TRUE(whole.contains("choices")) << whole;
  const Json& message = whole["choices"][0]["message"];
  ASSERT_EQ(message["tool_calls"].size(), 1u) << whole;
  ExpectCity(Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()));

  // What the model called before, and what came back, are text of the conversation.
  Json talk = {hi, message};
  for (const char* result : {"sunny", "21 degrees"}) {
    talk.push_back({{"role", "tool"}, {"tool_call_id", "1"}, {"content", result}});
  }
  prompt = PromptOf(fixture, {{"messages", talk}});
  EXPECT_NE(prompt.find("<|assistant|><tool_call>\n{\"name\":\"weather\",\"arguments\":{\"city\":"),
            std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("<|user|><tool_response>\nsunny\n</tool_response>\n\n"
                        "<tool_response>\n21 degrees\n</tool_response>"),
            std::string::npos)
      << prompt;
}

TEST(ToolRoutes, TheUserTellsOfToolsWhereATemplateTakesNoSystemMessage) {
  for (const char* system : {"{{ raise_exception('no system') }}", ""}) {
    const Fixture fixture(WithoutTools(system));
    const Json parts = Json::array({{{"type", "text"}, {"text", "Hi"}}});
    const Json hi = {{"role", "user"}, {"content", parts}};
    const std::string prompt = PromptOf(fixture, WithMessages(Json::array({hi})));
    EXPECT_TRUE(prompt.starts_with("<|user|>You can call these functions")) << prompt;
    EXPECT_NE(prompt.find("</tool_response>.\n\nHi"), std::string::npos) << prompt;
    // Not in a system message of the request either, which is lost or refused in any case.
    const Json kind = {{"role", "system"}, {"content", "Be kind."}};
    const Answer answer = fixture.Post("/apply-template", WithMessages({kind, hi}));
    EXPECT_EQ(answer.status, *system == '\0' ? 200 : 400) << answer.body;
    EXPECT_EQ(answer.body.find("functions") == std::string::npos, *system != '\0') << answer.body;
  }
}

}  // namespace
}  // namespace oort::serve
