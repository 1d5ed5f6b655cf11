// SPDX-License-Identifier: MIT
// Automata against a matcher that tries every way, over random grammars and all short texts.
#include "grammar/automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "grammar/accepts.h"
#include "grammar/reference_matcher.h"
#include "grammar/sources.h"
#include "kit/sanitized.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

class RandomRules {
 public:
  explicit RandomRules(uint32_t seed) : random_(seed) {}

  Rules Make() {
    const int count = Below(4) + 1;
    for (int i = 0; i < count; ++i) rules_.AddRule("r" + std::to_string(i));
    for (int i = 0; i < count; ++i) rules_.Define(i, Make(3));
    return rules_;
  }

 private:
  int Below(int most) { return static_cast<int>(random_() % static_cast<uint32_t>(most)); }

  ExprId Make(int depth) {
    const int kind = Below(depth == 0 ? 3 : 9);
    switch (kind) {
      case 0: return rules_.Text(std::string(static_cast<size_t>(Below(3)), "abc"[Below(3)]));
      case 1: return rules_.Set({{'a', 'a' + 1 + static_cast<uint32_t>(Below(3))}});
      case 2: return rules_.Call(Below(rules_.rules()));
      case 3:
      case 4: return rules_.Sequence({Make(depth - 1), Make(depth - 1)});
      case 5: return rules_.Choice({Make(depth - 1), Make(depth - 1)});
      case 6: {
        const auto min = static_cast<uint32_t>(Below(3));
        return rules_.Repeat(Make(depth - 1), min, min + static_cast<uint32_t>(Below(3)));
      }
      case 7: return rules_.Repeat(Make(depth - 1), static_cast<uint32_t>(Below(2)), kUnbounded);
      default: {
        const auto min = static_cast<uint32_t>(Below(2));
        const bool rest = Below(2) == 0;
        return rules_.Joined({Make(depth - 1), Make(depth - 1)}, {Below(2) == 0, Below(2) == 0},
                             rules_.Text(","), rest ? Make(depth - 1) : -1, min,
                             Below(2) == 0 ? kUnbounded : min + 1);
      }
    }
  }

  std::mt19937 random_;
  Rules rules_;
};

/// Whether every rule has a text: else a matcher that tries all ways cannot say which of them end.
bool AllHaveTexts(const Rules& rules) {
  std::vector<bool> has(static_cast<size_t>(rules.rules()));
  std::function<bool(ExprId)> check = [&](ExprId id) -> bool {
    const Expr& e = rules.expr(id);
    if (e.kind == Expr::Kind::kCall) return has[static_cast<size_t>(e.rule)];
    const auto ok = [&](ExprId child) { return check(child); };
    if (e.kind == Expr::Kind::kChoice) {
      return std::ranges::any_of(e.children, ok) && std::ranges::all_of(e.children, ok);
    }
    if (e.rest >= 0 && !ok(e.rest)) return false;
    return std::ranges::all_of(e.children, ok);
  };
  // Twice as many rounds as rules let what is recursive come to rest.
  for (int round = 0; round < 2 * rules.rules(); ++round) {
    for (RuleId rule = 0; rule < rules.rules(); ++rule) {
      const Expr& body = rules.expr(rules.body(rule));
      const bool now = body.kind == Expr::Kind::kChoice ? std::ranges::any_of(body.children, check)
                                                        : check(rules.body(rule));
      has[static_cast<size_t>(rule)] = has[static_cast<size_t>(rule)] || now;
    }
  }
  return std::ranges::all_of(has, [](bool one) { return one; });
}

TEST(GrammarAutomaton, AcceptsWhatTheReferenceDoes) {
  int tried = 0;
  int complete = 0;
  for (uint32_t seed = 0; seed < 3000 && tried < 400; ++seed) {
    const Rules rules = RandomRules(seed).Make();
    if (!AllHaveTexts(rules)) continue;
    std::unique_ptr<Acceptor> acceptor;
    try {
      acceptor = std::make_unique<Acceptor>(rules);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      continue;  // left recursion
    }
    ++tried;
    std::mt19937 random(seed);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      const size_t length = random() % 9;
      while (text.size() < length) {
        // Mostly what may follow, so that texts get somewhere.
        const char next = "abc,"[random() % 4];
        if (random() % 4 == 0 || (*acceptor)(text + next) != Acceptor::kDead) text += next;
        if (random() % 16 == 0) break;
      }
      const ReferenceMatcher reference(rules, text);
      const Acceptor::Answer answer = (*acceptor)(text);
      ASSERT_EQ(answer == Acceptor::kComplete, reference.complete())
          << "seed " << seed << " text '" << text << "'";
      ASSERT_EQ(answer != Acceptor::kDead, reference.complete() || reference.open())
          << "seed " << seed << " text '" << text << "'";
      complete += reference.complete() ? 1 : 0;
    }
  }
  EXPECT_GE(tried, 200);
  EXPECT_GE(complete, 1000);
}

TEST(GrammarAutomaton, NestedRepetitionsAddUp) {
  Rules rules;
  rules.root = rules.AddRule("root");
  ExprId deep = rules.Text("ab");
  for (int i = 0; i < 10; ++i) {
    deep = rules.Sequence({rules.Text("("), rules.Repeat(deep, 0, 1000), rules.Text(")")});
  }
  rules.Define(rules.root, deep);
  Acceptor acceptor(rules);
  std::string text(9, '(');
  for (int i = 0; i < 999; ++i) text += "()";
  EXPECT_EQ(acceptor(text + "(ab)" + std::string(8, ')')), Acceptor::kOpen);
  EXPECT_TRUE(acceptor.Takes(text + "(ab)" + std::string(9, ')')));
  EXPECT_EQ(acceptor(text + "()("), Acceptor::kDead);
  EXPECT_LT(acceptor.machine().automaton()->states(), 100000);
}

TEST(GrammarAutomaton, PatternsWithManySubsetsStaySmall) {
  // As a deterministic automaton this has 2^13 states.
  Acceptor acceptor(ReadRegex("[ab]*a[ab]{13}"));
  EXPECT_LT(acceptor.machine().automaton()->states(), 200);
  EXPECT_TRUE(
      acceptor.Takes("abababababababababab"
                     "aa"));
  EXPECT_TRUE(
      acceptor.Takes("a"
                     "bbbbbbbbbbbbb"));
  EXPECT_FALSE(
      acceptor.Takes("b"
                     "bbbbbbbbbbbbb"));
}

TEST(GrammarAutomaton, AmbiguityDoesNotMultiply) {
  // Catalan numbers of ways: a list of stacks would have as many.
  Acceptor acceptor(
      ReadGbnf("root ::= s\ns ::= \"a\" s s | \"a\" | \"a\" s \"b\" | \"a\" s \"c\""));
  const size_t length = testing::TriesFewer() ? 101 : 301;
  EXPECT_TRUE(acceptor.Takes(std::string(length, 'a')));
  EXPECT_TRUE(acceptor.Takes(std::string(length, 'a') + std::string(length / 6 * 2, 'b')));
  EXPECT_FALSE(acceptor.Takes(std::string(length - 1, 'a')));
  EXPECT_EQ(acceptor("b"), Acceptor::kDead);
}

TEST(GrammarAutomaton, RecursionAtTheEndTakesNoStack) {
  Acceptor acceptor(ReadGbnf("root ::= \"a\" root | \"b\""));
  Machine& machine = acceptor.machine();
  const int32_t first = machine.Step(machine.Begin(), 'a');
  int32_t at = first;
  for (int i = 0; i < 10000; ++i) at = machine.Step(at, 'a');
  EXPECT_EQ(at, first);
  EXPECT_TRUE(machine.complete(machine.Step(at, 'b')));
}

TEST(GrammarAutomaton, ImportedConfigurationsGoOnAlike) {
  Acceptor acceptor(AnyJsonObject());
  Machine& machine = acceptor.machine();
  int32_t at = machine.Begin();
  for (const char byte : std::string(R"({"a": [[[{"b": [1, {"c)")) {
    at = machine.Step(at, static_cast<uint8_t>(byte));
  }
  Machine other(machine.automaton());
  int32_t there = other.Import(machine, at);
  for (const char byte : std::string(R"(d": null}]}]]]})")) {
    at = machine.Step(at, static_cast<uint8_t>(byte));
    there = other.Step(there, static_cast<uint8_t>(byte));
    ASSERT_EQ(at == Machine::kDead, there == Machine::kDead);
  }
  EXPECT_TRUE(machine.complete(at));
  EXPECT_TRUE(other.complete(there));
}

void ExpectRefused(const std::function<void()>& body, ErrorCode code, const std::string& part) {
  try {
    body();
    FAIL() << "nothing was thrown; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(GrammarAutomaton, RefusesWhatCannotBeRead) {
  const auto gbnf = [](const std::string& text) {
    return [text] { Acceptor acceptor(ReadGbnf(text)); };
  };
  ExpectRefused(gbnf("root ::= root"), ErrorCode::kInvalidArgument, "nothing matches");
  ExpectRefused(gbnf("root ::= \"a\" root"), ErrorCode::kInvalidArgument, "nothing matches");
  ExpectRefused(gbnf("root ::= []"), ErrorCode::kInvalidArgument, "nothing matches");
  ExpectRefused(gbnf("root ::= root \"a\" | \"b\""), ErrorCode::kInvalidArgument, "left recursion");
  ExpectRefused(gbnf("root ::= a\na ::= b? a \"x\" | \"y\"\nb ::= \"z\""),
                ErrorCode::kInvalidArgument, "'a' of the grammar calls itself");
  ExpectRefused(gbnf("root ::= (\"abcdefghijklmnop\"{900}){900}{900} x\nx ::= \"a\"{1001}"),
                ErrorCode::kLimit, "1000");
  std::string wide = "root ::= ";
  for (int i = 0; i < 200; ++i) wide += "[a-z]{" + std::to_string(900 + i % 100) + "} ";
  ExpectRefused(gbnf(wide), ErrorCode::kLimit, "100000 states");
}

TEST(GrammarAutomaton, HostileGrammarsAreReadOrRefused) {
  // Thousands of rules that may be empty, each calling the next.
  std::string chain = "root ::= a0\n";
  for (int i = 0; i < 2500; ++i) {
    chain += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + "? \"x\"?\n";
  }
  chain += "a2500 ::= \"y\"\n";
  try {
    Acceptor acceptor(ReadGbnf(chain));
    EXPECT_TRUE(acceptor.Takes("yxxx"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLimit);
  }
  std::string calls = "root ::= w";
  for (int i = 0; i < (testing::TriesFewer() ? 5000 : 20000); ++i) calls += " w";
  try {
    Acceptor acceptor(ReadGbnf(calls + "\nw ::= [ \\t]*"));
    EXPECT_TRUE(acceptor.Takes("  \t"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLimit);
  }
}

}  // namespace
}  // namespace oort::grammar
