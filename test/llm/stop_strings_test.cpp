// SPDX-License-Identifier: MIT
#include "llm/stop_strings.h"

#include <gtest/gtest.h>

#include "oort/error.h"

namespace oort {
namespace {

/// All that is shown when the text comes in pieces of `size` bytes.
std::string ShownInPieces(const std::vector<std::string>& stops, const std::string& text,
                          size_t size, std::string* matched) {
  StopStrings matcher(stops);
  std::string shown;
  for (size_t i = 0; i < text.size() && !matcher.stopped(); i += size)
    shown += matcher.Add(text.substr(i, size));
  if (!matcher.stopped()) shown += matcher.Finish();
  *matched = matcher.matched();
  return shown;
}

void ExpectShown(const std::vector<std::string>& stops, const std::string& text,
                 const std::string& shown, const std::string& stop) {
  for (size_t size = 1; size <= text.size() + 1; ++size) {
    std::string matched;
    EXPECT_EQ(ShownInPieces(stops, text, size, &matched), shown) << "pieces of " << size;
    EXPECT_EQ(matched, stop) << "pieces of " << size;
  }
}

TEST(StopStrings, EndBeforeTheStopHoweverTheTextIsCut) {
  ExpectShown({}, "all of it", "all of it", "");
  ExpectShown({"END"}, "a END b", "a ", "END");
  ExpectShown({"END"}, "ENENDx", "EN", "END");
  ExpectShown({"END"}, "END", "", "END");
  ExpectShown({"END"}, "aEN", "aEN", "");
  ExpectShown({"aab"}, "aaaab", "aa", "aab");
  ExpectShown({"abab", "x"}, "ababab", "", "abab");
  ExpectShown({"\n\n", "User:"}, "Hi\nUser: x", "Hi\n", "User:");
  ExpectShown({"longer stop", "stop"}, "a longer stop", "a ", "longer stop");
  ExpectShown({"abc", "b"}, "xabc", "xa", "b");
  ExpectShown({"é", "日本語"}, "naïve 日本 日本語!", "naïve 日本 ", "日本語");
}

TEST(StopStrings, HoldsBackOnlyWhatMayBeginAStop) {
  StopStrings matcher({"<|end|>", "\n\n"});
  EXPECT_EQ(matcher.Add("Hello <"), "Hello ");
  EXPECT_EQ(matcher.Add("b>\n"), "<b>");
  EXPECT_EQ(matcher.Add("x<|en"), "\nx");
  EXPECT_EQ(matcher.Add("d|"), "");
  EXPECT_EQ(matcher.Finish(), "<|end|");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopStrings, ShowsWholeCharactersOfUtf8) {
  StopStrings matcher({"é!"});  // C3 A9 21; ü is C3 BC
  EXPECT_EQ(matcher.Add("aü"), "aü");
  EXPECT_EQ(matcher.Add("é"), "");
  EXPECT_EQ(matcher.Add("?"), "é?");
  EXPECT_EQ(matcher.Add("é!more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.Add("nothing"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopStrings, RefusesWhatCannotBeAStop) {
  EXPECT_THROW(StopStrings({"a", ""}), Error);
  EXPECT_THROW(StopStrings({"\xff"}), Error);
}

}  // namespace
}  // namespace oort
