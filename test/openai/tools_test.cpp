// SPDX-License-Identifier: MIT
// Tools and reasoning: from a request to what its answers say.
#include <gtest/gtest.h>

#include "kit/storyteller_with.h"
#include "openai/response.h"
#include "openai/served.h"

namespace oort::openai {
namespace {

using nlohmann::json;

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"weather","description":"of a city",
    "strict":true,"parameters":{"type":"object","properties":{"city":{"type":"string",
    "enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false}}},
    {"type":"function","function":{"name":"now"}}])";

/// The storyteller with a template whose models write calls as `mark` says.
ServedModel WithTools(const std::string& mark) {
  ServedModel served = Storyteller();
  served.model = LanguageModel::Load(testing::StorytellerWith(testing::ToolTemplate(mark)));
  served.forms = std::make_shared<AnswerForms>();
  return served;
}

const ServedModel& Hermes() {
  static const ServedModel served = WithTools("<tool_call>");
  return served;
}

GenerateCall Parse(const std::string& fields, const ServedModel& served = Hermes()) {
  return ParseChatRequest(
      ParseBody(R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}"), served);
}

std::string PromptOf(const GenerateCall& call) {
  return Hermes().model->tokenizer().Decode(call.requests[0].prompt, {.skip_special = false});
}

GenerateResult ResultOf(const std::string& text) {
  GenerateResult result;
  result.text = text;
  result.tokens = {5};
  return result;
}

/// What the chunks of an answer that comes letter by letter say together.
json Streamed(const GenerateCall& call, const GeneratedAnswer& answer, json* end = nullptr) {
  ChunkWriter writer(call, Hermes(), {"id", 1});
  std::vector<std::string> chunks = {writer.First(0)};
  for (const char& letter : answer.text) {
    GeneratedPiece piece;
    piece.text = {&letter, 1};
    chunks.push_back(writer.Piece(0, piece));
  }
  for (std::string& chunk : writer.Last(0, answer)) chunks.push_back(std::move(chunk));
  json message = {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", json::array()}};
  for (const std::string& chunk : chunks) {
    if (chunk.empty()) continue;
    const json choice = json::parse(chunk)["choices"][0];
    const json& delta = choice["delta"];
    for (const char* key : {"content", "reasoning_content"}) {
      message[key] = message[key].get<std::string>() + delta.value(key, "");
    }
    for (const json& part : delta.value("tool_calls", json::array())) {
      json& calls = message["tool_calls"];
      if (part["index"] == calls.size()) {
        EXPECT_EQ(part["type"], "function");
        calls.push_back(
            {{"id", part["id"]}, {"name", part["function"]["name"]}, {"arguments", ""}});
      } else {
        EXPECT_FALSE(part.contains("id")) << part;  // clients would join it to the first
        EXPECT_FALSE(part["function"].contains("name")) << part;
      }
      json& arguments = calls[part["index"].get<size_t>()]["arguments"];
      arguments = arguments.get<std::string>() + part["function"]["arguments"].get<std::string>();
    }
    if (end != nullptr) *end = choice["finish_reason"];
  }
  return message;
}

TEST(OpenAiTools, TheTemplateIsToldOfThem) {
  EXPECT_EQ(PromptOf(Parse(kTools)),
            "<|begin|><|user|><tool_call> weather now<|end|><|user|>Hi<|end|><|assistant|>");
  EXPECT_EQ(PromptOf(Parse(std::string(kTools) + R"(,"tool_choice":"none")")),
            "<|begin|><|user|>Hi<|end|><|assistant|>");
  const GenerateCall call = ParseChatRequest(
      ParseBody(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,
      "tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":"{\"a\": 1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"noon"}]})"),
      Hermes());
  EXPECT_EQ(PromptOf(call),
            "<|begin|><|user|>Hi<|end|><|assistant|>[now{\"a\": 1}]<|end|><|user|>noon<|end|>"
            "<|assistant|>");
}

TEST(OpenAiTools, AnswersAreHeldToCallsWhereTheyAreAskedFor) {
  const Tokenizer& tokenizer = Hermes().model->tokenizer();
  const auto takes = [&](const std::string& choice, std::string_view text) {
    const GenerateCall call = Parse(kTools + choice);
    if (call.requests[0].constraint == nullptr) return -1;
    const auto own = call.requests[0].constraint->Clone();
    for (const int32_t token : tokenizer.Encode(text, {.add_special = false})) {
      if (!own->Accept(token)) return 0;
    }
    return own->done() ? 1 : 0;
  };
  const std::string rome =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\"}}\n</tool_call>";
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const std::string required = R"(,"tool_choice":"required")";
  EXPECT_EQ(takes(required, rome), 1);
  EXPECT_EQ(takes(required, now), 1);
  EXPECT_EQ(takes(required, rome + "\n" + now), 1);
  EXPECT_EQ(takes(required, "Hello"), 0);
  EXPECT_EQ(takes(required + R"(,"parallel_tool_calls":false)", rome + "\n" + now), 0);
  const std::string named = R"(,"tool_choice":{"type":"function","function":{"name":"now"}})";
  EXPECT_EQ(takes(named, now), 1);
  EXPECT_EQ(takes(named, rome), 0);
}

TEST(OpenAiTools, CallsOfStrictToolsKeepToTheirSchemas) {
  const Tokenizer& tokenizer = Hermes().model->tokenizer();
  const auto takes = [&](const std::string& fields, std::string_view text) {
    const GenerateCall call = Parse(fields);
    if (call.requests[0].constraint == nullptr) return -1;
    const auto own = call.requests[0].constraint->Clone();
    for (const int32_t token : tokenizer.Encode(text, {.add_special = false})) {
      if (!own->Accept(token)) return 0;
    }
    return own->done() ? 1 : 0;
  };
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments +
           "}\n</tool_call>";
  };
  for (const std::string& fields :
       {std::string(kTools), kTools + std::string(R"(,"tool_choice":"auto")")}) {
    EXPECT_EQ(takes(fields, "Once upon a time."), 1);
    EXPECT_EQ(takes(fields, "Well. " + call("weather", R"({"city":"Rome"})")), 1);
    EXPECT_EQ(takes(fields, call("weather", R"({"city":"Paris"})")), 0);
    EXPECT_EQ(takes(fields, call("now", R"({"any": "thing"})")), 1);  // is not strict
    EXPECT_EQ(takes(fields, call("then", "{}")), 0);
  }
  std::string loose = kTools;
  loose.replace(loose.find("\"strict\":true"), 13, "\"strict\":null");
  EXPECT_EQ(takes(loose, "Hi"), -1);
  const std::string begun = kTools + std::string(R"(,"chat_template_kwargs":{"think":true})");
  EXPECT_EQ(takes(begun, "Hm. <tool_call>?</think>" + call("now", "{}")), 1);
  EXPECT_EQ(takes(begun, "Hm. <tool_call>?"), 1);
  EXPECT_EQ(takes(kTools, "Hm. <tool_call>?"), 0);
  EXPECT_TRUE(Parse(begun).parts.begins_in_reasoning);
}

TEST(OpenAiTools, CallsOfAnAnswerAreToldWholeAndInParts) {
  const std::string text =
      "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"R\\\"\"}}\n"
      "</tool_call>\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  const GenerateCall call = Parse(kTools);
  const GenerateResult result = ResultOf(text);
  const json body = json::parse(ResponseBody(call, Hermes(), {"id", 1}, {&result, 1}));
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  const json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u) << body;
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"]["name"], "weather");
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"city": "R\""})");
  EXPECT_EQ(calls[1]["function"]["name"], "now");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_TRUE(calls[0]["id"].get<std::string>().starts_with("call_"));

  json finish;
  const json streamed = Streamed(call, result, &finish);
  EXPECT_EQ(finish, "tool_calls");
  EXPECT_EQ(streamed["content"], choice["message"]["content"]);
  ASSERT_EQ(streamed["tool_calls"].size(), 2u) << streamed;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(streamed["tool_calls"][i]["name"], calls[i]["function"]["name"]);
    EXPECT_EQ(streamed["tool_calls"][i]["arguments"], calls[i]["function"]["arguments"]);
  }
}

TEST(OpenAiTools, OneCallWhereOneIsAllowed) {
  const std::string one = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  const GenerateCall call = Parse(std::string(kTools) + R"(,"parallel_tool_calls":false)");
  const AnswerMessage message = ReadMessage(call, ResultOf(one + one + "and"));
  EXPECT_EQ(message.calls.size(), 1u);
  EXPECT_EQ(message.content, "");
  EXPECT_EQ(Streamed(call, ResultOf(one + one + "and"))["tool_calls"].size(), 1u);
}

TEST(OpenAiTools, ACallThatIsCutOffEndsByLength) {
  GenerateResult result = ResultOf("<tool_call>{\"name\": \"weather\", \"arguments\": {\"ci");
  result.finish = FinishReason::kLength;
  const json body = json::parse(ResponseBody(Parse(kTools), Hermes(), {"id", 1}, {&result, 1}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"ci");
  EXPECT_TRUE(body["choices"][0]["message"]["content"].is_null());
}

TEST(OpenAiTools, WithoutToolsMarksAreText) {
  const std::string text = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(ReadMessage(Parse(R"("n":1)"), ResultOf(text)).content, text);
}

TEST(OpenAiTools, MistralGetsIdsOfNineLetters) {
  const ServedModel served = WithTools("[TOOL_CALLS]");
  const GenerateCall call = Parse(kTools, served);
  const AnswerMessage message =
      ReadMessage(call, ResultOf("[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]"));
  ASSERT_EQ(message.calls.size(), 1u);
  EXPECT_EQ(message.calls[0].id.size(), 9u);
}

TEST(OpenAiTools, ReasoningIsToldApart) {
  const std::string text = "<think>\nHm, <tool_call>?\n</think>\n\nYes.";
  const GenerateCall call = Parse(R"("n":1)");
  const GenerateResult result = ResultOf(text);
  const json body = json::parse(ResponseBody(call, Hermes(), {"id", 1}, {&result, 1}));
  const json& message = body["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Hm, <tool_call>?");
  EXPECT_EQ(message["content"], "Yes.");
  EXPECT_EQ(Streamed(call, result)["reasoning_content"], message["reasoning_content"]);
  EXPECT_EQ(Streamed(call, result)["content"], "Yes.");
  EXPECT_EQ(ReadMessage(Parse(R"("reasoning_format":"none")"), result).content, text);
  // The prompt may have begun it.
  const GenerateCall begun = Parse(R"("chat_template_kwargs":{"think":true})");
  EXPECT_EQ(ReadMessage(begun, ResultOf("Hm.</think>Yes.")).reasoning, "Hm.");
  EXPECT_EQ(ReadMessage(call, ResultOf("Hm.</think>Yes.")).reasoning, "");
  // A form leaves no room for it.
  const GenerateCall formed =
      Parse(R"("chat_template_kwargs":{"think":true},"response_format":{"type":"json_object"})");
  EXPECT_EQ(ReadMessage(formed, ResultOf("{}")).content, "{}");
}

TEST(OpenAiTools, WhatMakesNoSenseIsRefusedByField) {
  struct RefusedTools {
    std::string fields;
    const char* param;
    const char* says;
  };
  const std::string tools = kTools;
  const RefusedTools refusals[] = {
      {R"("tools":{})", "tools", "list"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type", "web_search"},
      {R"("tools":[{"type":"function"}])", "tools[0].function", "missing"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name", "1 to 64"},
      {R"("tools":[{"type":"function","function":{"name":"a","parameters":[]}}])",
       "tools[0].function.parameters", "object"},
      {R"("tools":[{"type":"function","function":{"name":"a","colour":1}}])",
       "tools[0].function.colour", "not known"},
      {R"("tools":[{"type":"function","function":{"name":"a"}},
        {"type":"function","function":{"name":"a"}}])",
       "tools[1]", "already"},
      {tools + R"(,"tool_choice":"always")", "tool_choice", "\"required\""},
      {tools + R"(,"tool_choice":{"type":"function","function":{"name":"x"}})", "tool_choice",
       "none of the tools"},
      {tools + R"(,"tool_choice":{"type":"function"})", "tool_choice.function", "missing"},
      {tools + R"(,"response_format":{"type":"json_object"})", "tools", "exclude"},
      {tools + R"(,"tool_choice":"required","grammar":"root ::= \"a\"")", "tool_choice", "exclude"},
      {R"("tool_choice":"required","tools":[{"type":"function","function":{"name":"a",
        "parameters":{"not":{}}}}])",
       "tools", "'not'"},
      {R"("tools":[{"type":"function","function":{"name":"a","strict":true,
        "parameters":{"not":{}}}}])",
       "tools", "'not'"},
      {R"("tools":[{"type":"function","function":{"name":"a","strict":1}}])",
       "tools[0].function.strict", "true or false"},
      {tools + R"(,"grammar":"root ::= \"a\"")", "tools", "exclude"},
      {R"("functions":[])", "functions", "tools"},
      {R"("reasoning_format":"xml")", "reasoning_format", "none"},
  };
  for (const RefusedTools& refusal : refusals) {
    const ApiError error = ErrorOf([&] { Parse(refusal.fields); });
    EXPECT_EQ(error.status, 400) << refusal.fields;
    EXPECT_EQ(error.param, refusal.param) << refusal.fields << ": " << error.message;
    EXPECT_NE(error.message.find(refusal.says), std::string::npos)
        << refusal.fields << ": " << error.message;
  }
  std::string many = R"("tools":[)";
  for (int i = 0; i < 129; ++i) {
    many += (i ? "," : "") + (R"({"type":"function","function":{"name":"f)" + std::to_string(i)) +
            "\"}}";
  }
  EXPECT_EQ(ErrorOf([&] { Parse(many + "]"); }).param, "tools");
  // A model whose template knows no tools is told of them by a message, and how to call them.
  EXPECT_EQ(Parse(kTools, Storyteller()).parts.tools, ToolStyle::kHermes);
  // One that writes calls in another way can not be held to them.
  const ServedModel other = WithTools("<function=");
  EXPECT_EQ(Parse(kTools, other).parts.tools, ToolStyle::kNone);
  EXPECT_EQ(ErrorOf([&] { Parse(tools + R"(,"tool_choice":"required")", other); }).param, "tools");
}

}  // namespace
}  // namespace oort::openai
