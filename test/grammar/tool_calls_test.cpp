// SPDX-License-Identifier: MIT
// Answers with tool calls and reasoning, cut in every way; and grammars that force calls.
#include "oort/tool_calls.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "grammar/accepts.h"
#include "grammar/sources.h"
#include "kit/paths.h"
#include "oort/error.h"

namespace oort {
namespace {

struct Call {
  std::string name, arguments, id;
  bool operator==(const Call&) const = default;
};
struct Whole {
  std::string content, reasoning;
  std::vector<Call> calls;
  bool operator==(const Whole&) const = default;
};

void Add(Whole& whole, const AnswerDelta& delta) {
  whole.content += delta.content;
  whole.reasoning += delta.reasoning;
  for (const ToolCallDelta& part : delta.calls) {
    if (static_cast<size_t>(part.index) == whole.calls.size()) {
      EXPECT_FALSE(part.name.empty()) << "a call begins with its name";
      whole.calls.push_back({part.name, part.arguments, part.id});
    } else {
      ASSERT_EQ(static_cast<size_t>(part.index) + 1, whole.calls.size());
      EXPECT_TRUE(part.name.empty()) << "the name comes once";
      whole.calls.back().arguments += part.arguments;
    }
  }
}

Whole Parse(const AnswerParserOptions& options, const std::string& text, uint32_t seed) {
  AnswerParser parser(options);
  Whole whole;
  std::mt19937 random(seed);
  for (size_t at = 0; at < text.size();) {
    const size_t count = seed == 0 ? text.size() : 1 + random() % (seed % 7 + 1);
    Add(whole, parser.Push(std::string_view(text).substr(at, count)));
    at += count;
  }
  Add(whole, parser.Finish());
  EXPECT_EQ(static_cast<size_t>(parser.calls()), whole.calls.size());
  return whole;
}

struct AnswerCase {
  AnswerParserOptions options;
  std::string text;
  Whole whole;
};

/// However the text is cut.
void ExpectParts(const std::vector<AnswerCase>& cases) {
  for (const AnswerCase& one : cases) {
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const Whole whole = Parse(one.options, one.text, seed);
      EXPECT_EQ(whole.content, one.whole.content) << one.text << " seed " << seed;
      EXPECT_EQ(whole.reasoning, one.whole.reasoning) << one.text << " seed " << seed;
      ASSERT_EQ(whole.calls.size(), one.whole.calls.size()) << one.text << " seed " << seed;
      for (size_t i = 0; i < whole.calls.size(); ++i) {
        EXPECT_EQ(whole.calls[i].name, one.whole.calls[i].name) << one.text;
        EXPECT_EQ(whole.calls[i].arguments, one.whole.calls[i].arguments) << one.text;
        EXPECT_EQ(whole.calls[i].id, one.whole.calls[i].id) << one.text;
      }
    }
  }
}

TEST(AnswerParser, TakesAnswersApart) {
  const AnswerParserOptions plain;
  const AnswerParserOptions thinks{.reasoning = true};
  const AnswerParserOptions hermes{.tools = ToolStyle::kHermes, .reasoning = true};
  const AnswerParserOptions llama{.tools = ToolStyle::kLlama3};
  const AnswerParserOptions mistral{.tools = ToolStyle::kMistral};
  ExpectParts({
      {plain, "<think>a</think> <tool_call>", {"<think>a</think> <tool_call>", "", {}}},
      {plain, " a\n", {" a\n", "", {}}},
      {thinks,
       "<think>\nLet me see.\n\nYes.\n</think>\n\nIt is 4.",
       {"It is 4.", "Let me see.\n\nYes.", {}}},
      {thinks, "No <think> here</think>", {"No <think> here</think>", "", {}}},
      {thinks, "<think>cut short", {"", "cut short", {}}},
      {thinks, "<thin", {"<thin", "", {}}},
      {{.reasoning = true, .begins_in_reasoning = true}, "hm</think>\nyes", {"yes", "hm", {}}},
      {thinks, "<think></think>x", {"x", "", {}}},
      {hermes,
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\\\"\"]}}\n</tool_call>",
       {"", "", {{"f", R"({"a": [1, "}\""]})", ""}}}},
      {hermes,
       "<think>x</think>Sure.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
       "<tool_call>\n{\"arguments\": {\"q\": 1}, \"name\": \"g\"}\n</tool_call>\nDone",
       {"Sure.Done", "x", {{"f", "{}", ""}, {"g", "{\"q\": 1}", ""}}}},
      {hermes,
       R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)",
       {"", "", {{"f", R"({"a": 1})", ""}}}},
      {hermes, "a < b <tool", {"a < b <tool", "", {}}},
      {hermes, "<tool_call>no json</tool_call>", {"<tool_call>no json</tool_call>", "", {}}},
      {hermes, R"(<tool_call>{"name": "f", "arguments": {}}</tool_)", {"", "", {{"f", "{}", ""}}}},
      {hermes,
       R"(<tool_call>{"name": "f", "arguments": {"a": 1)",
       {"", "", {{"f", R"({"a": 1)", ""}}}},
      {hermes, "text  \n", {"text  \n", "", {}}},
      {llama, R"({"name": "f", "parameters": {"a": 1}})", {"", "", {{"f", R"({"a": 1})", ""}}}},
      {llama,
       R"({"type": "function", "name": "f", "parameters": {"a": 1}})",
       {"", "", {{"f", R"({"a": 1})", ""}}}},
      {llama,
       R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}})",
       {"", "", {{"f", "{}", ""}, {"g", "{}", ""}}}},
      {llama, R"({"answer": 4})", {R"({"answer": 4})", "", {}}},
      {llama, "Hello", {"Hello", "", {}}},
      {mistral,
       R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "x1"}])",
       {"", "", {{"f", R"({"a": 1})", ""}}}},
      {mistral,
       R"([{"id": "x1", "name": "f", "arguments": {}}, {"name": "g", "arguments": {}}])",
       {"", "", {{"f", "{}", "x1"}, {"g", "{}", ""}}}},
      {mistral, "[1, 2]", {"[1, 2]", "", {}}},
      {mistral, "Hi", {"Hi", "", {}}},
  });
}

TEST(AnswerParser, TellsChannelsApart) {
  AnswerParserOptions plain;
  plain.harmony = true;
  AnswerParserOptions tools = plain;
  tools.tools = ToolStyle::kHarmony;
  const std::string analysis = "<|channel|>analysis<|message|>Let me < see|>.<|end|>";
  const std::string again = "<|start|>assistant";
  const std::string final = "<|channel|>final<|message|>It is 4.";
  const std::string call =
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}";
  ExpectParts({
      {plain, analysis + again + final + "<|return|>", {"It is 4.", "Let me < see|>.", {}}},
      {plain, final, {"It is 4.", "", {}}},
      {plain, " " + again + final, {"It is 4.", "", {}}},
      {plain, "No channels at all", {"No channels at all", "", {}}},
      {plain, "to", {"to", "", {}}},
      {plain, "{\"a\": 1}", {"{\"a\": 1}", "", {}}},
      {plain, "<|channel|>analysis<|message|>cut sho", {"", "cut sho", {}}},
      {plain, "<|channel|>anal", {"", "", {}}},
      {plain, analysis + "<|start|>assis", {"", "Let me < see|>.", {}}},
      {plain,
       analysis + again + analysis + again + final,
       {"It is 4.", "Let me < see|>.\nLet me < see|>.", {}}},
      // A model that forgets the end of a message.
      {plain, "<|channel|>analysis<|message|>hm" + final, {"It is 4.", "hm", {}}},
      {plain, "<|channel|>analysis<|message|>hm" + again + final, {"It is 4.", "hm", {}}},
      {plain, analysis + " left over", {" left over", "Let me < see|>.", {}}},
      {plain, "<|channel|>commentary<|message|>First this.<|end|>", {"First this.", "", {}}},
      {plain, call, {"{\"a\": 1}", "", {}}},
      {tools,
       analysis + again + call + "<|call|>",
       {"", "Let me < see|>.", {{"f", "{\"a\": 1}", ""}}}},
      {tools,
       " to=functions.g<|channel|>commentary<|message|><|call|>",
       {"", "", {{"g", "{}", ""}}}},
      {tools,
       "<|channel|>commentary<|message|>Look:<|end|>" + again + call + "<|call|>" + again +
           "<|channel|>analysis to=python<|message|>1+1",
       {"Look:", "", {{"f", "{\"a\": 1}", ""}, {"python", "1+1", ""}}}},
      {tools, again + "<|channel|>commentary to=functions.f", {"", "", {}}},
  });
  // A header without an end is a text, and ends the reading of it.
  AnswerParser parser(plain);
  const std::string endless = "<|channel|>" + std::string(3000, 'x') + "<|channel|>";
  EXPECT_EQ(parser.Push(endless).content.substr(0, 12), "<|channel|>x");
  parser.Finish();
}

TEST(AnswerParser, StreamsArguments) {
  AnswerParser parser({.tools = ToolStyle::kHermes});
  AnswerDelta first = parser.Push("<tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \"On");
  ASSERT_EQ(first.calls.size(), 1U);
  EXPECT_EQ(first.calls[0].name, "f");
  EXPECT_EQ(first.calls[0].arguments, "{\"text\": \"On");
  AnswerDelta second = parser.Push("ce upon");
  ASSERT_EQ(second.calls.size(), 1U);
  EXPECT_EQ(second.calls[0].name, "");
  EXPECT_EQ(second.calls[0].arguments, "ce upon");
}

TEST(ToolStyle, IsFoundInTheTemplate) {
  EXPECT_EQ(ToolStyleOf("{{- '<tool_call>' }}"), ToolStyle::kHermes);
  EXPECT_EQ(ToolStyleOf("<tool_call>\n<function=f>"), ToolStyle::kNone);
  EXPECT_EQ(ToolStyleOf("{{ '[TOOL_CALLS]' }}"), ToolStyle::kMistral);
  EXPECT_EQ(ToolStyleOf("<|start_header_id|>ipython"), ToolStyle::kLlama3);
  EXPECT_EQ(ToolStyleOf("{{ messages }}"), ToolStyle::kNone);
  EXPECT_EQ(ToolStyleOf("<|channel|>final<|message|>{{ m.content }}"), ToolStyle::kHarmony);
  EXPECT_TRUE(IsHarmony("<|channel|>final<|message|>"));
  EXPECT_FALSE(IsHarmony("<|message|>"));
}

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
   "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"],
   "$defs": {"n": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "now"}}])";

TEST(ToolCallGrammar, ForcesCalls) {
  const auto acceptor = [](ToolStyle style, const char* name, bool parallel) {
    return grammar::Acceptor(
        grammar::ReadToolCalls(ToolCallGrammar(style, kTools, name, parallel).text));
  };
  const std::string add = R"({"name": "add", "arguments": {"a": 3}})";
  const std::string now = R"({"name": "now", "arguments": {}})";
  const std::string first = "<tool_call>\n" + add + "\n</tool_call>";
  const std::string second = "<tool_call>\n" + now + "\n</tool_call>";
  auto any = acceptor(ToolStyle::kHermes, "", true);
  EXPECT_TRUE(any.Takes(first));
  EXPECT_TRUE(any.Takes(first + "\n" + second));
  EXPECT_FALSE(any.Takes(""));
  EXPECT_FALSE(
      any.Takes("<tool_call>\n"
                R"({"name": "add", "arguments": {}})"
                "\n</tool_call>"));
  auto one = acceptor(ToolStyle::kHermes, "now", false);
  EXPECT_TRUE(one.Takes(second));
  EXPECT_FALSE(one.Takes(first));
  EXPECT_FALSE(one.Takes(second + "\n" + second));
  EXPECT_TRUE(acceptor(ToolStyle::kMistral, "", true).Takes("[" + add + ", " + now + "]"));
  EXPECT_TRUE(
      acceptor(ToolStyle::kLlama3, "", false).Takes(R"({"name": "add", "parameters": {"a": 3}})"));
  // What a forced answer is, the parser reads.
  const Whole whole = Parse({.tools = ToolStyle::kHermes}, first + "\n" + second, 3);
  EXPECT_EQ(whole.content, "");
  ASSERT_EQ(whole.calls.size(), 2U);
  EXPECT_EQ(whole.calls[0].arguments, R"({"a": 3})");
}

/// What answers to strict tools may be; "add" is strict, "now" is not.
grammar::Acceptor Strict(const AnswerParserOptions& parts, bool parallel) {
  const std::string strict[] = {"add"};
  return grammar::Acceptor(
      grammar::ReadToolCalls(StrictToolGrammar(parts, kTools, strict, parallel).text));
}

TEST(StrictToolGrammar, HoldsCallsInTextThatIsFree) {
  auto any = Strict({.tools = ToolStyle::kHermes}, true);
  const std::string add =
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3}}\n</tool_call>";
  const std::string loose =
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"x\": [true]}}\n</tool_call>";
  for (const std::string& text :
       std::vector<std::string>{"", "Hello", " \n", "a < b", "<<tool_call", "<tool_<tool_call",
                                "<tool_call >", "\u00e5<", "{\"name\": 1}", add,
                                "Let me see.\n" + add, add + "\n" + loose + "\nDone <", loose}) {
    EXPECT_TRUE(any.Takes(text)) << text;
  }
  using enum grammar::Acceptor::Answer;
  EXPECT_EQ(any("text <tool_call>"), kOpen);
  EXPECT_EQ(any("<<tool_call>\n{\"name\": \""), kOpen);
  EXPECT_EQ(any("<tool_call>no"), kDead);
  EXPECT_EQ(any("<tool_call>\n{\"name\": \"subtract"), kDead);
  EXPECT_EQ(any("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"3"), kDead);
  EXPECT_EQ(any(add + "<tool_call>\n{\"name\": \"add\", \"arguments\": {}"), kDead);
  EXPECT_EQ(any("<tool_call>\n{\"name\": \"now\", \"arguments\": 1"), kDead);
  auto one = Strict({.tools = ToolStyle::kHermes}, false);
  EXPECT_TRUE(one.Takes("Let me see. " + add + " Done."));
  EXPECT_EQ(one(add + "<tool_call>"), kDead);
}

TEST(StrictToolGrammar, OtherStylesCallAtTheBegin) {
  using enum grammar::Acceptor::Answer;
  auto llama = Strict({.tools = ToolStyle::kLlama3}, true);
  const std::string call = R"({"name": "add", "parameters": {"a": 3}})";
  for (const std::string& text : {std::string(), std::string("Hi {"), call, " \n" + call,
                                  call + "; " + call, std::string("[1]")}) {
    EXPECT_TRUE(llama.Takes(text)) << text;
  }
  EXPECT_EQ(llama(R"( {"answer")"), kDead);
  EXPECT_EQ(llama(R"({"name": "add", "parameters": {"a": "3)"), kDead);
  auto mistral = Strict({.tools = ToolStyle::kMistral}, true);
  const std::string list = R"([{"name": "add", "arguments": {"a": 3}}])";
  for (const std::string& text :
       {std::string("Hi ["), list, "[TOOL_CALLS]" + list, "\xff" + list}) {
    EXPECT_TRUE(mistral.Takes(text)) << text;
  }
  EXPECT_EQ(mistral("[1"), kDead);
  EXPECT_EQ(mistral("\xffHi"), kDead);
  EXPECT_EQ(mistral("Hi \xff"), kDead);
  EXPECT_THROW(Strict({.tools = ToolStyle::kNone}, true), Error);
}

TEST(StrictToolGrammar, ReasoningIsFree) {
  using enum grammar::Acceptor::Answer;
  const std::string thoughts = "Maybe <tool_call>? No: </thin";
  const std::string add =
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 3}}\n</tool_call>";
  auto begun =
      Strict({.tools = ToolStyle::kHermes, .reasoning = true, .begins_in_reasoning = true}, true);
  EXPECT_TRUE(begun.Takes(thoughts));
  EXPECT_TRUE(begun.Takes(thoughts + "</think>\n\n" + add));
  EXPECT_EQ(begun(thoughts + "</think><tool_call>?"), kDead);
  auto may = Strict({.tools = ToolStyle::kHermes, .reasoning = true}, true);
  EXPECT_TRUE(may.Takes("<think>" + thoughts + "</think>" + add));
  EXPECT_TRUE(may.Takes(add));
  EXPECT_EQ(may("<think>" + thoughts + "</think><tool_call>?"), kDead);
  EXPECT_EQ(may(thoughts), kDead);
}

/// The token that stands before calls has no text: it is told apart from all that have.
TEST(StrictToolGrammar, TheMarkIsAToken) {
  const auto tokenizer = Tokenizer::FromFile(SourceTree() / "models/storyteller");
  const int32_t mark = *tokenizer.IdOf("<|user|>");
  const GrammarCompiler compiler(tokenizer, tokenizer.size());
  const std::string strict[] = {"add"};
  const auto made = compiler.Compile(
      StrictToolGrammar({.tools = ToolStyle::kMistral}, kTools, strict, true), {&mark, 1});
  const auto allows = [&](TokenConstraint& constraint, int32_t token) {
    std::vector<uint32_t> bits((tokenizer.size() + 31) / 32);
    constraint.Mask(bits);
    const bool set = (bits[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
    EXPECT_EQ(set, constraint.Clone()->Accept(token)) << token;
    return set;
  };
  EXPECT_TRUE(made->done());  // an answer may say nothing
  EXPECT_TRUE(allows(*made, mark));
  const auto plain = made->Clone();
  const std::vector<int32_t> hello = tokenizer.Encode("Hello", {.add_special = false});
  ASSERT_TRUE(plain->Accept(hello[0]));
  EXPECT_FALSE(allows(*plain, mark));
  ASSERT_TRUE(made->Accept(mark));
  EXPECT_FALSE(made->done());
  EXPECT_FALSE(allows(*made, mark));
  EXPECT_FALSE(made->Clone()->Accept(hello[0]));
  for (const char byte : std::string_view(R"([{"name": "add", "arguments": {"a": 3}}])")) {
    // Letter by letter: every tokenizer has tokens for these.
    const std::vector<int32_t> ids = tokenizer.Encode({&byte, 1}, {.add_special = false});
    ASSERT_TRUE(made->Accept(ids.back())) << byte;
  }
  EXPECT_TRUE(made->done());
}

TEST(ToolCallGrammar, SaysWhatIsWrong) {
  const auto code = [](ToolStyle style, const char* tools, const char* name) {
    try {
      grammar::ReadToolCalls(ToolCallGrammar(style, tools, name, true).text);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << tools;
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code(ToolStyle::kNone, kTools, ""), ErrorCode::kUnsupported);
  EXPECT_EQ(code(ToolStyle::kHermes, kTools, "missing"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(ToolStyle::kHermes, "[]", ""), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(ToolStyle::kHermes, "{", ""), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(ToolStyle::kHermes, "[{}]", ""), ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      code(ToolStyle::kHermes, R"([{"function": {"name": "f", "parameters": {"not": {}}}}])", ""),
      ErrorCode::kUnsupported);
  EXPECT_THROW(grammar::ReadToolCalls("{}"), Error);
}

}  // namespace
}  // namespace oort
