// SPDX-License-Identifier: MIT
// Conversations with tools for models whose chat template knows none.
#include "openai/told_tools.h"

#include <gtest/gtest.h>

#include "kit/storyteller_with.h"

namespace oort::openai {
namespace {

using Messages = nlohmann::ordered_json;

constexpr const char* kNoonTool =
    R"([{"type":"function","function":{"name":"now","description":"","parameters":{}}}])";

/// Takes the roles that it names, as texts or as parts, as that of SmolVLM does. Refuses others,
/// and two messages of one role in a row, as that of Gemma does.
std::string StrictTemplate(const std::string& roles) {
  return "{% for message in messages %}{% if message.role not in [" + roles +
         "] %}{{ raise_exception('unknown role') }}{% endif %}"
         "{% if not loop.first and messages[loop.index0 - 1].role == message.role %}"
         "{{ raise_exception('roles must alternate') }}{% endif %}"
         "{{ '<|' + message.role + '|>' }}{% if message.content is string %}"
         "{{ message.content }}{% else %}{% for part in message.content %}"
         "{{ part.text if part.type == 'text' else '<image>' }}{% endfor %}{% endif %}{% endfor %}";
}

/// What a model with this template is told, as text.
std::string Told(const std::string& chat_template, const Messages& messages,
                 const std::string& tools = "") {
  const auto model = LanguageModel::Load(testing::StorytellerWith(chat_template));
  EXPECT_FALSE(TemplateKnowsTools(*model));
  ChatInputs inputs;
  inputs.messages = messages.dump();
  inputs.tools = tools;
  TellOfTools(*model, {}, inputs);
  EXPECT_EQ(inputs.tools, "");
  return model->FormatChat(inputs);
}

Messages Say(const std::string& role, const Messages& content) {
  Messages message = Messages::object();
  message["role"] = role;
  message["content"] = content;
  return message;
}

Messages NowCall() {
  Messages message = Say("assistant", nullptr);
  message["tool_calls"] =
      Messages::parse(R"([{"id":"1","type":"function","function":{"name":"now","arguments":{}}}])");
  return message;
}

Messages Conversation(std::initializer_list<Messages> messages) {
  Messages list = Messages::array();
  for (const Messages& message : messages) list.push_back(message);
  return list;
}

const std::string kTalkers = "'user', 'assistant'";
const std::string kWrittenCall = "<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>";

TEST(ToldTools, ResultsAndWhatTheUserSaysBesideThemAreOneMessage) {
  const std::string said = Told(
      StrictTemplate(kTalkers),
      Conversation({Say("user", "When?"), NowCall(), Say("tool", "noon"), Say("tool", "Monday"),
                    Say("user", "And where?"), Say("assistant", "Here."), Say("user", "Thanks.")}));
  EXPECT_EQ(said, "<|user|>When?<|assistant|>" + kWrittenCall +
                      "<|user|><tool_response>\nnoon\n</tool_response>\n\n"
                      "<tool_response>\nMonday\n</tool_response>\n\nAnd where?"
                      "<|assistant|>Here.<|user|>Thanks.");
  // Of a conversation whose beginning was cut off.
  EXPECT_EQ(Told(StrictTemplate(kTalkers),
                 Conversation({Say("user", "Go on."), Say("tool", "noon"), Say("user", "")})),
            "<|user|>Go on.\n\n<tool_response>\nnoon\n</tool_response>");
}

TEST(ToldTools, MessagesOfTheUserInARowStayAsTheyCame) {
  const std::string lax =
      "{% for message in messages %}{{ '<|' + message.role + '|>' + message.content }}{% endfor %}";
  EXPECT_EQ(Told(lax, Conversation({Say("tool", "noon"), Say("user", "a"), Say("user", "b"),
                                    Say("user", "c")})),
            "<|user|><tool_response>\nnoon\n</tool_response>\n\na<|user|>b<|user|>c");
}

TEST(ToldTools, AreToldWhereTheTemplateTakesThem) {
  const auto begins = [](const std::string& roles, const Messages& messages) {
    const std::string said = Told(StrictTemplate(roles), messages, kNoonTool);
    EXPECT_NE(said.find("<tools>\n{\"name\":\"now\""), std::string::npos) << said;
    return said.substr(0, said.find("<tools>"));
  };
  const std::string told = "You can call these functions, of which each line describes one:\n";
  const Messages hi = Say("user", "Hi");
  EXPECT_EQ(begins("'system', " + kTalkers, Conversation({hi})), "<|system|>" + told);
  EXPECT_EQ(begins("'system', " + kTalkers, Conversation({Say("system", "Be kind."), hi})),
            "<|system|>Be kind.\n\n" + told);
  EXPECT_EQ(begins("'developer', " + kTalkers, Conversation({Say("developer", "Be kind."), hi})),
            "<|developer|>Be kind.\n\n" + told);
  EXPECT_EQ(begins(kTalkers, Conversation({hi})), "<|user|>" + told);
}

/// Some templates leave out, without a word, what has a role that they do not know.
TEST(ToldTools, AreNotLostInAMessageThatTheTemplateLeavesOut) {
  const auto only = [](const std::string& roles) {
    return "{% for message in messages %}{% if message.role in [" + roles +
           "] %}{{ '<|' + message.role + '|>' + message.content }}{% endif %}{% endfor %}";
  };
  const std::string told = "You can call these functions";
  const Messages hi = Say("user", "Hi");
  for (const char* role : {"system", "developer"}) {
    const Messages messages = Conversation({Say(role, "Be kind."), hi});
    const std::string said = Told(only(kTalkers), messages, kNoonTool);
    EXPECT_TRUE(said.starts_with("<|user|>" + told)) << said;
    EXPECT_TRUE(said.ends_with("</tool_response>.\n\nHi")) << said;
  }
  const std::string said = Told(only("'system', " + kTalkers),
                                Conversation({Say("developer", "Be kind."), hi}), kNoonTool);
  EXPECT_TRUE(said.starts_with("<|system|>" + told)) << said;
  EXPECT_TRUE(said.ends_with("<|user|>Hi")) << said;
}

TEST(ToldTools, CallsStayCallsWhereTheTemplateKnowsThem) {
  const Messages talk = Conversation({Say("user", "When?"), NowCall(), Say("tool", "noon")});
  const std::string knows_both =
      "{% for message in messages %}{{ '<|' + message.role + '|>' }}{{ message.content or '' }}"
      "{% for call in message.tool_calls or [] %}{{ '[' + call.function.name + ']' }}{% endfor %}"
      "{% endfor %}";
  EXPECT_EQ(Told(knows_both, talk), "<|user|>When?<|assistant|>[now]<|tool|>noon");
  EXPECT_NE(Told(knows_both, talk, kNoonTool).find("<|assistant|>[now]<|tool|>noon"),
            std::string::npos);
  for (const char* role : {"'tool'", "\"tool\""}) {
    const std::string knows_results =
        std::string("{% for message in messages %}{{ 'RESULT ' if message.role == ") + role +
        " else '<|' + message.role + '|>' }}{{ message.content or '' }}{% endfor %}";
    EXPECT_EQ(Told(knows_results, talk), "<|user|>When?<|assistant|>RESULT noon");
  }
}

TEST(ToldTools, AsManyResultsAsARequestMayHaveStayAllOfThem) {
  constexpr size_t kResults = 4096;
  Messages talk = Messages::array();
  size_t bytes = 0;
  for (size_t i = 0; i < kResults; ++i) {
    talk.push_back(Say("tool", std::to_string(i) + std::string(900, '.')));
    bytes += talk.back()["content"].get_ref<const std::string&>().size();
  }
  const auto model = LanguageModel::Load(testing::StorytellerWith(StrictTemplate(kTalkers)));
  ChatInputs inputs;
  inputs.messages = talk.dump();
  TellOfTools(*model, {}, inputs);
  const Messages told = Messages::parse(inputs.messages);
  ASSERT_EQ(told.size(), 1u);
  const std::string text = told[0]["content"];
  size_t at = 0, count = 0;
  for (const std::string tag = "<tool_response>\n"; (at = text.find(tag, at)) != std::string::npos;
       ++count) {
    at += tag.size();
    EXPECT_TRUE(text.substr(at, 8).starts_with(std::to_string(count) + '.'));
  }
  EXPECT_EQ(count, kResults);
  const std::string around = "<tool_response>\n\n</tool_response>", between = "\n\n";
  EXPECT_EQ(text.size(), bytes + kResults * around.size() + (kResults - 1) * between.size());
}

TEST(ToldTools, PicturesInResultsStayParts) {
  const Messages picture = {{"type", "image"}};
  const Messages seen = {{"type", "text"}, {"text", "Seen:"}};
  const std::string roles = "'system', " + kTalkers;
  const Messages result = Say("tool", Conversation({seen, picture}));
  EXPECT_EQ(Told(StrictTemplate(roles), Conversation({result})),
            "<|user|><tool_response>\nSeen:<image>\n</tool_response>");
  // Texts and parts beside each other, whichever comes first.
  EXPECT_EQ(Told(StrictTemplate(roles),
                 Conversation({Say("tool", "noon"), result, Say("tool", Conversation({picture})),
                               Say("user", "What is it?")})),
            "<|user|><tool_response>\nnoon\n</tool_response>\n\n"
            "<tool_response>\nSeen:<image>\n</tool_response>\n\n"
            "<tool_response>\n<image>\n</tool_response>\n\nWhat is it?");
  EXPECT_EQ(Told(StrictTemplate(roles),
                 Conversation({Say("tool", "noon"), Say("user", Conversation({picture, seen}))})),
            "<|user|><tool_response>\nnoon\n</tool_response>\n\n<image>Seen:");
  // Behind parts of the system's, and before parts of the user's.
  const Messages looking = Say("user", Conversation({picture, seen}));
  const std::string told =
      Told(StrictTemplate(roles), Conversation({Say("system", Conversation({seen})), looking}),
           kNoonTool);
  EXPECT_TRUE(told.starts_with("<|system|>Seen:\n\nYou can call these functions")) << told;
  const std::string user = Told(StrictTemplate(kTalkers), Conversation({looking}), kNoonTool);
  EXPECT_TRUE(user.starts_with("<|user|>You can call these functions")) << user;
  EXPECT_TRUE(user.ends_with("</tool_response>.\n\n<image>Seen:")) << user;
}

}  // namespace
}  // namespace oort::openai
