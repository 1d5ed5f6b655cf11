// SPDX-License-Identifier: MIT
// GBNF, regular expressions and choices.
#include "grammar/sources.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "grammar/accepts.h"
#include "oort/error.h"
#include "text/utf8.h"

namespace oort::grammar {
namespace {

ErrorCode CodeOf(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

TEST(Gbnf, ReadsTheNotation) {
  struct Case {
    std::string grammar;
    std::vector<std::string> taken, refused;
  };
  const std::vector<Case> cases = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "maybe"}},
      {"# a comment\nroot ::= a b # another\n\na ::= \"x\"\nb ::= \"y\"+",
       {"xy", "xyyy"},
       {"x", "y"}},
      {"root ::=\n  \"a\" |\n  \"b\"\n", {"a", "b"}, {"ab", ""}},
      {"root ::= (\"a\"\n  \"b\"\n)*", {"", "ab", "abab"}, {"a", "aba"}},
      {"root ::= [a-c]{2} [^a-c]{1,2} [0-9]{,2} \"!\"{3,}",
       {"abz!!!", "ccxy42!!!!"},
       {"abz!!", "az!!!"}},
      {"root ::= [\\]\\\\\\-x]+", {"]", "\\-x"}, {"a", "[", ""}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= \"\\x41\\u00e4\\U0001F600\\n\\\"\"", {"A\u00e4\U0001F600\n\""}, {"A"}},
      {"root ::= [\u00e4-\u00f6] .",
       {"\u00e5x", "\u00f6\U0001F600"},
       {"ax", "\u00e5", "\u00e5\xff"}},
      {"root ::= [^x]",
       {"a", "\n", "\u20ac", "\U0010FFFF"},
       {"x", "", "ab", "\x80", "\xed\xa0\x80"}},
      {"root ::= \"a\"? \"b\"*", {"", "a", "b", "abbb"}, {"ba"}},
      {"root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"",
       {"1", "1+2", "(1+(2))+3"},
       {"1+", "(1", ")"}},
      {"root ::= x-y_1\nx-y_1 ::= \"z\"", {"z"}, {"x"}},
  };
  for (const Case& one : cases) {
    Acceptor acceptor(ReadGbnf(one.grammar));
    for (const std::string& text : one.taken) {
      EXPECT_TRUE(acceptor.Takes(text)) << one.grammar << " takes '" << text << "'";
    }
    for (const std::string& text : one.refused) {
      EXPECT_FALSE(acceptor.Takes(text)) << one.grammar << " refuses '" << text << "'";
    }
  }
}

TEST(Gbnf, SaysWhatIsWrong) {
  struct Case {
    std::string grammar;
    ErrorCode code;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"", ErrorCode::kInvalidArgument, "root"},
      {"a ::= \"x\"", ErrorCode::kInvalidArgument, "root"},
      {"root ::= missing", ErrorCode::kInvalidArgument, "missing"},
      {"root ::= \"x\"\nroot ::= \"y\"", ErrorCode::kInvalidArgument, "line 2"},
      {"root \"x\"", ErrorCode::kInvalidArgument, "::="},
      {"root ::= \"x", ErrorCode::kInvalidArgument, "end"},
      {"root ::= [x", ErrorCode::kInvalidArgument, "end"},
      {"root ::= (\"x\"", ErrorCode::kInvalidArgument, "')'"},
      {"root ::= \"x\")", ErrorCode::kInvalidArgument, "unknown"},
      {"root ::= [z-a]", ErrorCode::kInvalidArgument, "range"},
      {"root ::= \"\\q\"", ErrorCode::kInvalidArgument, "escape"},
      {"root ::= \"\\u12\"", ErrorCode::kInvalidArgument, "digits"},
      {"root ::= \"\\ud800\"", ErrorCode::kInvalidArgument, "does not exist"},
      {"root ::= \"a\"{3,2}", ErrorCode::kInvalidArgument, "at least 3"},
      {"root ::= \"a\"{}", ErrorCode::kInvalidArgument, "number"},
      {"root ::= \"a\"{99999999999999999999}", ErrorCode::kLimit, "1000"},
      {"root ::= <[123]>", ErrorCode::kUnsupported, "token"},
      {"root ::= \"\xff\"", ErrorCode::kInvalidArgument, "UTF-8"},
      {"root ::= " + std::string(60000, '('), ErrorCode::kLimit, "32 deep"},
      {"root ::= \"a\"" + std::string(60000, '*'), ErrorCode::kInvalidArgument, "too many times"},
      {"root ::= \"" + std::string(70000, 'a') + "\"", ErrorCode::kLimit, "65536"},
  };
  for (const Case& one : cases) {
    std::string message;
    EXPECT_EQ(CodeOf([&] { ReadGbnf(one.grammar); }, &message), one.code) << message;
    EXPECT_NE(message.find(one.part), std::string::npos) << message << " has no " << one.part;
  }
}

/// Patterns whose meaning the standard library and this one share.
class RandomPattern {
 public:
  explicit RandomPattern(uint32_t seed) : random_(seed) {}
  std::string Make(int depth) {
    switch (random_() % (depth == 0 ? 3 : 8)) {
      case 0: return std::string(1, "abc1"[random_() % 4]);
      case 1: return random_() % 2 == 0 ? "[ab]" : "[^a1]";
      case 2: return random_() % 2 == 0 ? "\\d" : "\\w";
      case 3:
      case 4: return Make(depth - 1) + Make(depth - 1);
      case 5: return "(" + Make(depth - 1) + "|" + Make(depth - 1) + ")";
      case 6: return "(?:" + Make(depth - 1) + ")" + std::string(1, "*+?"[random_() % 3]);
      default: return "(" + Make(depth - 1) + "){" + std::to_string(random_() % 2) + ",2}";
    }
  }
  std::string Text() {
    std::string text;
    for (size_t i = random_() % 7; i > 0; --i) text += "abc1_"[random_() % 5];
    return text;
  }

 private:
  std::mt19937 random_;
};

TEST(GrammarRegex, MatchesWhatTheStandardLibraryDoes) {
  int matches = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomPattern random(seed);
    const std::string pattern = random.Make(3);
    const std::regex reference(pattern);
    Acceptor acceptor(ReadRegex(pattern));
    for (int i = 0; i < 40; ++i) {
      const std::string text = random.Text();
      const bool expected = std::regex_match(text, reference);
      ASSERT_EQ(acceptor.Takes(text), expected) << pattern << " and '" << text << "'";
      matches += expected ? 1 : 0;
    }
  }
  EXPECT_GT(matches, 500);
}

TEST(GrammarRegex, TakesAnchorsAtItsEnds) {
  Acceptor whole(ReadRegex("^(ab|c)+$"));
  EXPECT_TRUE(whole.Takes("abcab"));
  EXPECT_FALSE(whole.Takes("xab"));
  EXPECT_FALSE(whole.Takes("abx"));
  Acceptor either(ReadRegex("^a$|^b$|c"));
  EXPECT_TRUE(either.Takes("a"));
  EXPECT_TRUE(either.Takes("c"));
  EXPECT_FALSE(either.Takes("ab"));
  Acceptor unicode(ReadRegex("\\p{Lu}\\p{Ll}+ [\\u00e4\u20ac]{2}"));
  EXPECT_TRUE(unicode.Takes("\u00c4rger \u00e4\u20ac"));
  EXPECT_FALSE(unicode.Takes("\u00c4rger \u00e4a"));
}

TEST(GrammarRegex, SaysWhatItCannotHoldTo) {
  const std::vector<std::pair<std::string, ErrorCode>> cases = {
      {"a(?=b)", ErrorCode::kUnsupported},
      {"(?<!x)a", ErrorCode::kUnsupported},
      {"(a)\\1", ErrorCode::kUnsupported},
      {"\\bword", ErrorCode::kUnsupported},
      {"a^b", ErrorCode::kUnsupported},
      {"(?>a)b", ErrorCode::kUnsupported},
      {"a*+b", ErrorCode::kUnsupported},
      {"a{1001}", ErrorCode::kLimit},
      {"(a", ErrorCode::kInvalidArgument},
      {"[a", ErrorCode::kInvalidArgument},
      {"a)", ErrorCode::kInvalidArgument},
      {"*a", ErrorCode::kInvalidArgument},
      {"\xff", ErrorCode::kInvalidArgument},
      {std::string(70000, 'a'), ErrorCode::kLimit},
      {std::string(30000, '(') + "a" + std::string(30000, ')'), ErrorCode::kInvalidArgument},
      {std::string(60, '(') + "a" + std::string(60, ')') + "|" + std::string(60, '[') + "b",
       ErrorCode::kInvalidArgument},
      {"a" + std::string(60000, '*'), ErrorCode::kInvalidArgument},
  };
  for (const auto& entry : cases) {
    EXPECT_EQ(CodeOf([&] { ReadRegex(entry.first); }), entry.second) << entry.first.substr(0, 40);
  }
}

TEST(Choices, AreTakenAsTheyAre) {
  Acceptor acceptor(ReadChoices(std::vector<std::string>{"yes", "yes.", "no*", "\u20ac"}));
  for (const char* text : {"yes", "yes.", "no*", "\u20ac"}) EXPECT_TRUE(acceptor.Takes(text));
  for (const char* text : {"", "ye", "no", "noo", "yes.."}) EXPECT_FALSE(acceptor.Takes(text));
  EXPECT_EQ(CodeOf([] { ReadChoices({}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([] {
              ReadChoices(std::vector<std::string>{"a", ""});
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([] { ReadChoices(std::vector<std::string>(100, std::string(1000, 'a'))); }),
            ErrorCode::kLimit);
}

TEST(GrammarUtf8, SequencesAreThoseOfTheCharacters) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    text::Ranges ranges;
    for (int i = 0; i < 3; ++i) {
      const auto begin =
          static_cast<uint32_t>(random() % (seed % 2 == 0 ? 0x3000 : text::kCodePoints));
      ranges.emplace_back(
          begin, std::min(begin + 1 + static_cast<uint32_t>(random() % 0x900), text::kCodePoints));
    }
    ranges =
        text::Intersection(text::Normalized(ranges), {{0, 0xD800}, {0xE000, text::kCodePoints}});
    const auto sequences = Utf8Sequences(ranges);
    const text::CodePointSet set(ranges);
    for (int i = 0; i < 3000; ++i) {
      auto c = static_cast<uint32_t>(random() % text::kCodePoints);
      if (i % 2 == 0 && !ranges.empty()) {  // near the borders
        const auto& [begin, end] = ranges[random() % ranges.size()];
        c = (random() % 2 == 0 ? begin : end) + static_cast<uint32_t>(random() % 5) - 2;
      }
      if (c >= text::kCodePoints || (c >= 0xD800 && c < 0xE000)) continue;
      const std::string text = text::ToUtf8(c);
      int found = 0;
      for (const auto& sequence : sequences) {
        bool fits = sequence.size() == text.size();
        for (size_t k = 0; fits && k < text.size(); ++k) {
          const auto byte = static_cast<uint8_t>(text[k]);
          fits = sequence[k].first <= byte && byte <= sequence[k].second;
        }
        found += fits ? 1 : 0;
      }
      ASSERT_EQ(found, set.Contains(c) ? 1 : 0) << "seed " << seed << " character " << c;
    }
  }
}

}  // namespace
}  // namespace oort::grammar
