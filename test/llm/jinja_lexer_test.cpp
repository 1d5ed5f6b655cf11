// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "chat_template/lexer.h"
#include "oort/error.h"

namespace oort::jinja {
namespace {

std::string LexerTexts(std::string_view source) {
  std::string texts;
  for (const Token& token : Tokenize(source)) {
    if (token.kind == TokenKind::kData) texts += "<" + token.text + ">";
    if (token.kind == TokenKind::kString) texts += "'" + token.text + "'";
    if (token.kind == TokenKind::kName || token.kind == TokenKind::kOperator) texts += token.text;
    if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat)
      texts += "#" + token.text;
  }
  return texts;
}

TEST(JinjaLexer, TagsTakeWhiteSpaceAsTrimAndLstripSay) {
  EXPECT_EQ(LexerTexts("a\n  {% x %}\n  b"), "<a\n>x<  b>");
  EXPECT_EQ(LexerTexts("a {% x %} b"), "<a >x< b>");
  EXPECT_EQ(LexerTexts("a\n  {%- x -%}\n  b"), "<a>x<b>");
  EXPECT_EQ(LexerTexts("  {%+ x +%}\nb"), "<  >x<\nb>");
  EXPECT_EQ(LexerTexts("  {{ x }}\nb"), "<  >x<\nb>");
  EXPECT_EQ(LexerTexts("a\n  {# c #}\nb"), "<a\n><b>");
  EXPECT_EQ(LexerTexts("a {#- c -#} b"), "<a><b>");
  EXPECT_EQ(LexerTexts("x\r\ny\n"), "<x\ny>");
  EXPECT_EQ(LexerTexts("x\n\n"), "<x\n>");
}

TEST(JinjaLexer, RawIsText) {
  EXPECT_EQ(LexerTexts("{% raw %}{{ a }}{% endraw %}b"), "<{{ a }}><b>");
  EXPECT_EQ(LexerTexts("{%- raw -%} {% b %} {%- endraw -%} c"), "<{% b %}><c>");
}

TEST(JinjaLexer, BracesOfDictionariesDoNotEndTags) {
  EXPECT_EQ(LexerTexts("{{ {'a': {1: 2}}}}"), "{'a':{#1:#2}}");
}

TEST(JinjaLexer, NumbersAndEscapes) {
  EXPECT_EQ(LexerTexts("{{ 1_000 1.5 2e3 0x1F a.0 1. }}"), "#1000#1.5#2e3#0x1Fa.#0#1.");
  EXPECT_EQ(LexerTexts(R"({{ '\n\x41\u00e9\U0001F600\101\q\'' }})"),
            "'\n\x41\u00e9\U0001F600\x41\\q''");
}

TEST(JinjaLexer, ErrorsHaveLines) {
  for (const auto& [source, line] : {std::pair{"\n\n{{ ' }}", "line 3"},
                                     {"\n{# x", "line 2"},
                                     {"{{ a) }}", "line 1"},
                                     {"{{ \xff }}", "UTF-8"},
                                     {"{{ ? }}", "line 1"}}) {
    try {
      Tokenize(source);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find(line), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace oort::jinja
