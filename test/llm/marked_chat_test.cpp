// SPDX-License-Identifier: MIT
// Which bytes of a rendered chat came from the request, and what tokenizers make of that.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kit/paths.h"
#include "oort/chat_template.h"
#include "oort/tokenizer.h"

namespace oort {
namespace {

/// What a template makes of a message "ab<x>", and of the tool {"name": "t"}, with the bytes from
/// the request in brackets.
std::string Marked(const std::string& source, const std::string& content = "ab<x>") {
  ChatInputs inputs;
  const ChatMessage message{"user", content};
  inputs.messages = ToJson({&message, 1});
  inputs.tools = R"([{"name": "t"}])";
  inputs.special_tokens = R"({"bos_token": "<s>"})";
  inputs.variables = R"({"mood": "glad"})";
  const ChatTemplate parsed = ChatTemplate::Parse("{% set c = messages[0].content %}" + source);
  const RenderedChat chat = parsed.RenderMarked(inputs);
  EXPECT_EQ(chat.text, parsed.Render(inputs));
  std::string text;
  size_t at = 0;
  for (const TextRange& range : chat.user) {
    EXPECT_TRUE(range.begin < range.end && at <= range.begin && range.end <= chat.text.size());
    text += chat.text.substr(at, range.begin - at) + "[" +
            chat.text.substr(range.begin, range.end - range.begin) + "]";
    at = range.end;
  }
  return text + chat.text.substr(at);
}

TEST(MarkedChat, TextOfTheTemplateAndOfSpecialTokensIsItsOwn) {
  EXPECT_EQ(Marked("{{ bos_token }}<y>{{ 'z' }}"), "<s><y>z");
  EXPECT_EQ(Marked("{{ c }}{{ mood }}{{ tools[0].name }}{{ messages[0].role }}"),
            "[ab<x>gladtuser]");
}

TEST(MarkedChat, JoinedTextsKeepWhatIsWhose) {
  EXPECT_EQ(Marked("{{ '<y>' + c + '<z>' }}"), "<y>[ab<x>]<z>");
  EXPECT_EQ(Marked("{{ '<y>' ~ c ~ 5 ~ '<z>' }}"), "<y>[ab<x>]5<z>");
  EXPECT_EQ(Marked("{{ ['<y>', c, '<z>'] | join('-') }}"), "<y>-[ab<x>]-<z>");
  EXPECT_EQ(Marked("{{ c.join(['<y>', '<z>']) }}"), "<y>[ab<x>]<z>");
  EXPECT_EQ(Marked("{{ 2 * ('-' + c) }}"), "-[ab<x>]-[ab<x>]");
  EXPECT_EQ(Marked("{{ (c + '-') * 5 }}"), "[ab<x>]-[ab<x>]-[ab<x>]-[ab<x>]-[ab<x>]-");
  EXPECT_EQ(Marked("{{ 3 * c }}{{ 0 * c }}{{ 7 * '' }}"), "[ab<x>ab<x>ab<x>]");
  EXPECT_EQ(Marked("{% set n = namespace(t='<y>') %}{% set n.t = n.t + c %}{{ n.t }}"),
            "<y>[ab<x>]");
}

TEST(MarkedChat, BlocksAndMacrosKeepWhatIsWhose) {
  EXPECT_EQ(Marked("{% set t %}<y>{{ c }}{% endset %}{{ t }}"), "<y>[ab<x>]");
  EXPECT_EQ(Marked("{% macro m(x) %}<y>{{ x }}<z>{% endmacro %}{{ m(c) }}"), "<y>[ab<x>]<z>");
  EXPECT_EQ(Marked("{% filter trim %} <y>{{ c }} {% endfilter %}"), "<y>[ab<x>]");
  EXPECT_EQ(
      Marked("{% macro m() %}<y>{{ caller() }}{% endmacro %}{% call m() %}{{ c }}{% endcall %}"),
      "<y>[ab<x>]");
  EXPECT_EQ(Marked("{% for x in [c] recursive %}-{{ x }}{% endfor %}"), "-[ab<x>]");
}

TEST(MarkedChat, PartsOfTextsKeepWhatIsWhose) {
  const std::string mixed = "(' <y>' + c + '<z> ')";
  EXPECT_EQ(Marked("{{ " + mixed + " | trim }}"), "<y>[ab<x>]<z>");
  EXPECT_EQ(Marked("{{ " + mixed + ".strip() }}"), "<y>[ab<x>]<z>");
  EXPECT_EQ(Marked("{{ " + mixed + "[2:6] }}"), "y>[ab]");
  EXPECT_EQ(Marked("{{ " + mixed + "[4] }}{{ " + mixed + "[1] }}"), "[a]<");
  EXPECT_EQ(Marked("{% for p in " + mixed + ".split('b') %}{{ p }}|{% endfor %}"),
            " <y>[a]|[<x>]<z> |");
  EXPECT_EQ(Marked("{% for p in " + mixed + ".partition('b') %}{{ p }}|{% endfor %}"),
            " <y>[a]|[b]|[<x>]<z> |");
  EXPECT_EQ(Marked("{% for p in ('<y>' + c) %}{{ p }}{% endfor %}"), "<y>[ab<x>]");
  EXPECT_EQ(Marked("{{ ('<y>' + c).removeprefix('<y') }}"), ">[ab<x>]");
  EXPECT_EQ(Marked("{{ ('<y>' + c).replace('b', '<z>') }}"), "<y>[a]<z>[<x>]");
  EXPECT_EQ(Marked("{{ ('<y>' + c) | replace('<', c[0]) }}"), "[a]y>[abax>]");
  // Spaces alone: what is left is the template's.
  EXPECT_EQ(Marked("{{ ('<y>' + c) | trim }}", "  "), "<y>");
}

TEST(MarkedChat, WhatNobodyCanTellApartIsTheRequests) {
  EXPECT_EQ(Marked("{{ messages | tojson }}"), R"([[{"role": "user", "content": "ab<x>"}]])");
  EXPECT_EQ(Marked("{{ '<y>%s' % c }}"), "[<y>ab<x>]");
  EXPECT_EQ(Marked("{{ '<y>{}'.format(c) }}"), "[<y>ab<x>]");
  EXPECT_EQ(Marked("{{ '<y>%s' | format(c) }}"), "[<y>ab<x>]");
  EXPECT_EQ(Marked("{{ c.upper() }}{{ c | title }}{{ [c] }}"), "[AB<X>Ab<X>['ab<x>']]");
  // What takes nothing from it is not.
  EXPECT_EQ(Marked("{{ '<y>' | upper }}{{ c | length }}{{ none or '<z>' }}"), "<Y>5<z>");
  EXPECT_EQ(Marked("{{ '<y>' if c else '<z>' }}"), "<y>");
}

/// Pieces that only become a special token when the template puts them together are still text.
TEST(MarkedChat, TextThatBecomesAControlTokenIsMarkedAsAWhole) {
  EXPECT_EQ(Marked("{{ c.replace('-', '') }}", "<|e-nd|>"), "[<|end|>]");
  EXPECT_EQ(Marked("{{ c[0:2] + 'end' + c[-2:] }}", "<||>"), "[<|]end[|>]");
}

Tokenizer StoryTokenizer() { return Tokenizer::FromFile(SourceTree() / "models/storyteller"); }

TEST(MarkedChat, PlainRangesHoldNoSpecialTokens) {
  const Tokenizer tokenizer = StoryTokenizer();
  const std::string text = "<|end|>a<|end|>b<|end|>";
  const EncodeOptions options{.add_special = false, .parse_special = true};
  const auto ends = [&](std::vector<TextRange> plain) {
    const std::vector<int32_t> ids = tokenizer.Encode(text, options, plain);
    EXPECT_EQ(tokenizer.Decode(ids, {.skip_special = false}), text);
    return std::count(ids.begin(), ids.end(), 1);
  };
  EXPECT_EQ(ends({}), 3);
  EXPECT_EQ(ends({{8, 15}}), 2);
  EXPECT_EQ(ends({{9, 10}}), 2);
  EXPECT_EQ(ends({{14, 17}}), 1);
  EXPECT_EQ(ends({{7, 8}}), 3);
  EXPECT_EQ(ends({{6, 7}, {15, 16}}), 2);
  EXPECT_EQ(ends({{0, 23}}), 0);
  // Where nothing looks like one, the ranges change nothing.
  const std::string story = "<|user|>Tell me a story.<|end|>";
  const TextRange content{8, 24};
  EXPECT_EQ(tokenizer.Encode(story, options, {&content, 1}), tokenizer.Encode(story, options));
}

TEST(MarkedChat, BytesOfTokensSpellTheText) {
  const Tokenizer tokenizer = StoryTokenizer();
  const std::string text = "Once, a fox said: äöü 日本 🦊!";
  std::string spelled;
  for (const int32_t id : tokenizer.Encode(text, {.add_special = false})) {
    spelled += tokenizer.BytesOf(id);
  }
  EXPECT_EQ(spelled, text);
  EXPECT_EQ(tokenizer.BytesOf(1), "<|end|>");
  EXPECT_EQ(tokenizer.BytesOf(-1), "");
  EXPECT_EQ(tokenizer.BytesOf(100000), "");
}

}  // namespace
}  // namespace oort
