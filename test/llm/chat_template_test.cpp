// SPDX-License-Identifier: MIT
#include "oort/chat_template.h"
#include "kit/errors.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kit/errors.h"
#include "oort/error.h"

namespace oort {
namespace {

std::string RenderWith(std::string_view source, ChatInputs inputs = {},
                       const ChatLimits& limits = {}) {
  return ChatTemplate::Parse(source).Render(inputs, limits);
}

void ExpectRenderError(std::string_view source, ErrorCode code, std::string_view part,
                       ChatInputs inputs = {}, const ChatLimits& limits = {}) {
  try {
    ADD_FAILURE() << source << " renders " << RenderWith(source, inputs, limits).substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << source << ": " << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  }
}

TEST(ChatTemplate, RendersMessagesOfTheSimpleKind) {
  const std::vector<ChatMessage> messages{{"user", "a \"quote\"\n"}, {"assistant", "ü"}};
  ChatInputs inputs;
  inputs.messages = ToJson(messages);
  inputs.variables = R"({"bos_token": "<s>"})";
  const auto chat = ChatTemplate::Parse(
      "{{ bos_token }}{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
      "{{ '>' if add_generation_prompt }}{{ tools is none }}{{ documents is none }}");
  EXPECT_EQ(chat.Render(inputs), "<s>user=a \"quote\"\n;assistant=ü;>TrueTrue");
  inputs.add_generation_prompt = false;
  EXPECT_EQ(chat.Render(inputs), "<s>user=a \"quote\"\n;assistant=ü;TrueTrue");
}

TEST(ChatTemplate, GoesOnWithTheLastMessage) {
  const auto chat = ChatTemplate::Parse(
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}"
      "{{ '<assistant>' if add_generation_prompt }}");
  const auto render = [&](const std::string& content) {
    const std::vector<ChatMessage> messages{{"user", "Once"}, {"assistant", content}};
    ChatInputs inputs;
    inputs.messages = ToJson(messages);
    inputs.continue_final_message = true;
    return chat.RenderMarked(inputs);
  };
  EXPECT_EQ(render("Once upon").text, "<user>Once<end><assistant>Once upon");
  EXPECT_EQ(render(" Once upon \n").text, "<user>Once<end><assistant>Once upon");
  // What a message says of tokens is its own, to its end.
  const RenderedChat marked = render("a<end>b");
  EXPECT_EQ(marked.text, "<user>Once<end><assistant>a<end>b");
  EXPECT_EQ(marked.user.back(), (TextRange{marked.text.size() - 7, marked.text.size()}));
  for (const char* content : {"", " \n"}) {
    testing::ExpectThrows([&] { render(content); }, ErrorCode::kInvalidArgument, "no text");
  }
  // The template's own word is no message.
  ChatInputs inputs;
  inputs.messages = R"([{"role": "assistant", "content": "loud"}])";
  inputs.continue_final_message = true;
  const auto upper = ChatTemplate::Parse("{{ messages[0].content | upper }} loud");
  testing::ExpectThrows([&] { upper.Render(inputs); }, ErrorCode::kUnsupported, "as it is");
}

TEST(ChatTemplate, VariablesComeOnTopOfSpecialTokens) {
  ChatInputs inputs;
  inputs.special_tokens = R"({"bos_token": "<s>", "eos_token": "</s>"})";
  inputs.variables = R"({"eos_token": "E", "thinking": true})";
  EXPECT_EQ(RenderWith("{{ bos_token }}{{ eos_token }}{{ thinking }}", inputs), "<s>ETrue");
  const std::vector<ChatMessage> bad{{"user", "\xff"}};
  EXPECT_THROW(ToJson(bad), Error);
}

TEST(ChatTemplate, ThoughtsAreFoundUnderBothNames) {
  ChatInputs inputs;
  inputs.messages =
      R"([{"role": "a", "reasoning": "r"}, {"role": "b", "thinking": "t"}, {"role": "c"},
                        {"role": "d", "reasoning_content": null, "thinking": "x"}])";
  EXPECT_EQ(RenderWith("{% for m in messages %}{{ m }}\n{% endfor %}", inputs),
            "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}\n"
            "{'thinking': 't', 'role': 'b', 'reasoning_content': 't'}\n"
            "{'role': 'c'}\n"
            "{'thinking': 'x', 'role': 'd', 'reasoning_content': 'x'}\n");
}

TEST(ChatTemplate, InputsAreChecked) {
  ChatInputs inputs;
  for (const char* bad : {"{", "{}", "[1]", "null", "\"x\"", "[{\"a\": \"\xff\"}]"}) {
    inputs.messages = bad;
    ExpectRenderError("x", ErrorCode::kInvalidArgument, "messages", inputs);
  }
  inputs.messages = "[]";
  inputs.tools = "[3]";
  ExpectRenderError("x", ErrorCode::kInvalidArgument, "tools", inputs);
  inputs.tools.clear();
  inputs.variables = "[]";
  ExpectRenderError("x", ErrorCode::kInvalidArgument, "variables", inputs);
  inputs.variables = std::string(5000, '[') + std::string(5000, ']');
  ExpectRenderError("x", ErrorCode::kLimit, "nested", inputs);
}

TEST(ChatTemplate, ErrorsHaveCodeAndLine) {
  ExpectRenderError("a\n{{ raise_exception('no system role') }}", ErrorCode::kInvalidArgument,
                    "line 2: no system role");
  ExpectRenderError("\n\n{% if x %}", ErrorCode::kInvalidModel, "line 3");
  ExpectRenderError("\n{{ missing.content }}", ErrorCode::kInvalidArgument,
                    "line 2: 'missing' is undefined");
  ExpectRenderError("{{ 'x'|urlize }}", ErrorCode::kUnsupported, "urlize");
  ExpectRenderError("{% include 'a' %}", ErrorCode::kUnsupported, "include");
  ExpectRenderError("{{ 9223372036854775807 + 1 }}", ErrorCode::kLimit, "64 bits");
  ExpectRenderError("{% for x in [] %}\n{% if x %}{% set loop = 1 %}{% endif %}{% endfor %}",
                    ErrorCode::kInvalidModel, "line 2: can't assign to special loop variable");
  ExpectRenderError("{{ 'a\tb'.expandtabs(10000000000) }}", ErrorCode::kUnsupported, "expandtabs");
}

TEST(ChatTemplate, StopsAtItsLimits) {
  const ChatLimits small{10000, 1000, 100000};
  ExpectRenderError("{% for i in range(100000) %}{% endfor %}", ErrorCode::kLimit, "", {}, small);
  ExpectRenderError("{% for i in range(100000) %}{% endfor %}", ErrorCode::kLimit, "steps", {},
                    {10000, 1000, 1 << 30});
  ExpectRenderError("{% for i in range(200) %}0123456789{% endfor %}", ErrorCode::kLimit, "output",
                    {}, small);
  ExpectRenderError("{% set x %}{% for i in range(200) %}0123456789{% endfor %}{% endset %}",
                    ErrorCode::kLimit, "output", {}, small);
  ExpectRenderError("{% set x = 'a' * 200000 %}", ErrorCode::kLimit, "", {}, small);
  ExpectRenderError("{{ 'a' * 4000000000 }}", ErrorCode::kLimit, "too large");
  ExpectRenderError("{{ 'abc'.replace('', 'x' * 100000000) }}", ErrorCode::kLimit, "");
  ExpectRenderError(
      "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s "
      "%}{% endfor %}",
      ErrorCode::kLimit, "");
  // A list that holds another twice, over and over: small in memory, huge when printed.
  ExpectRenderError(
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      ErrorCode::kLimit, "");
  ExpectRenderError(
      "{% set ns = namespace(l=[1]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor "
      "%}",
      ErrorCode::kLimit, "nested");
  ExpectRenderError("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ErrorCode::kLimit, "deep");
  ExpectRenderError("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", ErrorCode::kLimit,
                    "deep");
  ExpectRenderError("{{ '%99999999d' % 1 }}", ErrorCode::kLimit, "wide");
  ExpectRenderError("{{ 'a'.center(4000000000) }}", ErrorCode::kLimit, "long");
}

TEST(ChatTemplate, DeepSourcesAreRefused) {
  for (const auto& [open, close] : {std::pair{"(", ")"},
                                    {"[", "]"},
                                    {"{1:", "}"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"x(", ")"},
                                    {"x[", "]"}}) {
    std::string text = "{{ ";
    for (int i = 0; i < 5000; ++i) text += open;
    text += "1";
    for (int i = 0; i < 5000; ++i) text += close;
    ExpectRenderError(text + " }}", ErrorCode::kInvalidModel, "deep");
  }
  std::string sum = "{{ 1", chain = "{{ x", blocks;
  for (int i = 0; i < 5000; ++i) {
    sum += " + 1";
    chain += "|string";
    blocks += "{% if 1 %}";
  }
  ExpectRenderError(sum + " }}", ErrorCode::kInvalidModel, "deep");
  ExpectRenderError(chain + " }}", ErrorCode::kInvalidModel, "deep");
  ExpectRenderError(blocks, ErrorCode::kInvalidModel, "deep");
  ExpectRenderError(std::string(5 << 20, 'x'), ErrorCode::kInvalidModel, "larger");
}

TEST(ChatTemplate, NamespacesMayHoldThemselves) {
  EXPECT_EQ(RenderWith("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me[0] == ns }}"),
            "True");
  EXPECT_EQ(RenderWith("{% for x in [1] %}{{ loop.changed(loop) }}{% endfor %}"), "True");
}

TEST(ChatTemplate, TheClockIsGiven) {
  ChatInputs inputs;
  inputs.now = ChatTime{2024, 2, 29, 0, 30, 9};
  EXPECT_EQ(RenderWith("{{ strftime_now('%d %b %Y, %A %I:%M:%S %p, %j') }}", inputs),
            "29 Feb 2024, Thursday 12:30:09 AM, 060");
  inputs.now = ChatTime{2023, 2, 29, 0, 0, 0};
  ExpectRenderError("{{ strftime_now('%d') }}", ErrorCode::kInvalidArgument, "date", inputs);
}

TEST(ChatTemplate, OneTemplateServesManyThreads) {
  const auto chat = ChatTemplate::Parse(
      "{% macro m(x) %}<{{ x|upper }}>{% endmacro %}{% for m1 in messages %}{{ m(m1.content) }}{% "
      "endfor %}{{ 'const' + 'ant' }}");
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        const std::vector<ChatMessage> messages{{"user", "t" + std::to_string(i)}};
        ChatInputs inputs;
        inputs.messages = ToJson(messages);
        texts[i] = chat.Render(inputs);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(texts[i], "<T" + std::to_string(i) + ">constant");
}

}  // namespace
}  // namespace oort
