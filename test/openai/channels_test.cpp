// SPDX-License-Identifier: MIT
// Models that answer in channels (harmony): from a request to what its answers say.
#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/storyteller_with.h"
#include "openai/response.h"
#include "openai/served.h"

namespace oort::openai {
namespace {

using nlohmann::json;

/// The storyteller with a template like gpt-oss's, whose marks are plain text to it.
const ServedModel& Harmony() {
  static const ServedModel served = [] {
    ServedModel made = Storyteller();
    made.model = LanguageModel::Load(testing::StorytellerWith(
        "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}"
        "{{ reasoning_effort }}{% for m in messages %}"
        "{{ '<|start|>' + m.role + '<|channel|>final<|message|>' + m.content }}{% endfor %}"
        "{{ '<|start|>assistant' }}"));
    made.forms = std::make_shared<AnswerForms>();
    return made;
  }();
  return served;
}

GenerateCall AskHarmony(const std::string& fields) {
  return ParseChatRequest(
      ParseBody(R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}"), Harmony());
}

std::string PromptText(const GenerateCall& call) {
  return Harmony().model->tokenizer().Decode(call.requests[0].prompt);
}

GenerateResult HarmonyResult(const std::string& text) {
  GenerateResult result;
  result.text = text;
  result.tokens = Harmony().model->tokenizer().Encode(text, {.add_special = false});
  return result;
}

constexpr const char* kWeather = R"("tools":[{"type":"function","function":{"name":"weather"}}])";
const std::string kAnswer =
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
const std::string kCall =
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.weather <|constrain|>json<|message|>{\"city\": \"Rome\"}";

TEST(OpenAiChannels, AnalysisIsReasoningAndFinalTheAnswer) {
  const GenerateCall call = AskHarmony(R"("n":1)");
  EXPECT_TRUE(call.requests[0].special_text);
  const GenerateResult result = HarmonyResult(kAnswer);
  const json body = json::parse(ResponseBody(call, Harmony(), {"id", 1}, {&result, 1}));
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Yes.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
  EXPECT_EQ(choice["finish_reason"], "stop");
  const int64_t reasoning = body["usage"]["completion_tokens_details"]["reasoning_tokens"];
  EXPECT_GT(reasoning, 0);
  EXPECT_LT(reasoning, static_cast<int64_t>(result.tokens.size()));
}

TEST(OpenAiChannels, StreamsTellThemApart) {
  const GenerateCall call = AskHarmony(kWeather);
  ChunkWriter writer(call, Harmony(), {"id", 1});
  std::vector<std::string> chunks = {writer.First(0)};
  for (const char& letter : kCall) {
    GeneratedPiece piece;
    piece.text = {&letter, 1};
    chunks.push_back(writer.Piece(0, piece));
  }
  for (std::string& chunk : writer.Last(0, HarmonyResult(kCall))) chunks.push_back(chunk);
  std::string content, reasoning, name, arguments, finish;
  for (const std::string& chunk : chunks) {
    if (chunk.empty()) continue;
    const json choice = json::parse(chunk)["choices"][0];
    content += choice["delta"].value("content", "");
    reasoning += choice["delta"].value("reasoning_content", "");
    for (const json& part : choice["delta"].value("tool_calls", json::array())) {
      name += part["function"].value("name", "");
      arguments += part["function"].value("arguments", "");
    }
    if (choice["finish_reason"].is_string()) finish = choice["finish_reason"];
  }
  EXPECT_EQ(content, "");
  EXPECT_EQ(reasoning, "Hm.");
  EXPECT_EQ(name, "weather");
  EXPECT_EQ(arguments, "{\"city\": \"Rome\"}");
  EXPECT_EQ(finish, "tool_calls");
}

TEST(OpenAiChannels, CallsAreTextToRequestsWithoutTools) {
  EXPECT_EQ(ReadMessage(AskHarmony(R"("n":1)"), HarmonyResult(kCall)).content,
            "{\"city\": \"Rome\"}");
  const AnswerMessage message = ReadMessage(AskHarmony(kWeather), HarmonyResult(kCall));
  ASSERT_EQ(message.calls.size(), 1u);
  EXPECT_TRUE(message.calls[0].id.starts_with("call_"));
  EXPECT_EQ(message.content, "");
}

TEST(OpenAiChannels, ReasoningFormatNoneLeavesThem) {
  const GenerateCall call = AskHarmony(R"("reasoning_format":"none")");
  EXPECT_EQ(ReadMessage(call, HarmonyResult(kAnswer)).content, kAnswer);
}

/// A form is that of the answer itself, so that the prompt ends with the header of its channel.
TEST(OpenAiChannels, FormsHoldTheFinalChannel) {
  const std::string header = "<|start|>assistant<|channel|>final<|message|>";
  EXPECT_FALSE(PromptText(AskHarmony(R"("n":1)")).ends_with(header));
  const GenerateCall call = AskHarmony(R"("response_format":{"type":"json_object"})");
  EXPECT_TRUE(PromptText(call).ends_with(header)) << PromptText(call);
  EXPECT_EQ(ReadMessage(call, HarmonyResult("{}")).content, "{}");
}

TEST(OpenAiChannels, EffortIsToldToTheTemplate) {
  EXPECT_TRUE(PromptText(AskHarmony(R"("reasoning_effort":"high")")).starts_with("high"));
  EXPECT_THROW(AskHarmony(R"("reasoning_effort":"huge")"), RequestError);
  EXPECT_THROW(
      ParseChatRequest(
          ParseBody(R"({"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"high"})"),
          Storyteller()),
      RequestError);
}

TEST(OpenAiChannels, AnswersCannotBeHeldToCalls) {
  const std::string strict =
      R"("tools":[{"type":"function","function":{"name":"weather","strict":true}}])";
  for (const std::string& fields :
       {kWeather + std::string(R"(,"tool_choice":"required")"), strict}) {
    try {
      AskHarmony(fields);
      ADD_FAILURE() << fields;
    } catch (const RequestError& error) {
      EXPECT_EQ(error.content().param, "tools");
      EXPECT_NE(error.content().message.find("harmony"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace oort::openai
