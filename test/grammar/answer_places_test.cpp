// SPDX-License-Identifier: MIT
#include "grammar/answer_places.h"

#include <gtest/gtest.h>

#include "grammar/sources.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

/// Answers in JSON over a few tokens.
struct AnswersInJson {
  std::shared_ptr<const Automaton> automaton =
      std::make_shared<Automaton>(AnyJsonObject(), std::chrono::milliseconds(20000));
  std::shared_ptr<const TokenTrie> trie = std::make_shared<TokenTrie>(std::vector<std::string>{
      "{", "}", "[", "]", "\"", "a", "b\"", ":", ",", "1", "\": ", "{\"a", "null", "]}", " "});
  StateMasks masks{automaton, trie};

  uint32_t MaskOf(AnswerPlaces& places, AnswerPlaces::Place& place) const {
    uint32_t bits = 0;
    places.Mask(place, {&bits, 1});
    return bits;
  }
};

const std::vector<std::string> kTexts = {R"({"a": [[{"ab": null}], 1], "b": {"a": {}}})",
                                         R"({"b": 1, "a": [1, [[[[{"a": "b"}]]]]]})"};

TEST(AnswerPlaces, WhatOneAnswerHasFoundNoOtherComputesAgain) {
  AnswersInJson json;
  AnswerPlaces places(json.automaton, json.trie, json.masks);
  const auto answer = [&] {
    std::vector<uint32_t> found;
    AnswerPlaces::Place place;
    for (const char byte : kTexts[0]) {
      found.push_back(json.MaskOf(places, place));
      EXPECT_FALSE(places.complete(place));
      EXPECT_FALSE(places.Step(place, "\x01"));  // and stays where it is
      EXPECT_TRUE(places.Step(place, {&byte, 1}));
    }
    EXPECT_TRUE(places.complete(place));
    return found;
  };
  const std::vector<uint32_t> first = answer();
  const size_t bytes = places.bytes();
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(answer(), first);
  EXPECT_EQ(places.bytes(), bytes);
}

TEST(AnswerPlaces, GoOnAlikeWhenWhatWasLearntIsForgotten) {
  AnswersInJson json;
  AnswerPlaces keeps(json.automaton, json.trie, json.masks);
  AnswerPlaces forgets(json.automaton, json.trie, json.masks, {.bytes = 1});
  std::vector<AnswerPlaces::Place> kept(2);
  std::vector<AnswerPlaces::Place> forgotten(2);
  const size_t length = std::max(kTexts[0].size(), kTexts[1].size());
  for (size_t i = 0; i < length; ++i) {
    for (size_t k = 0; k < kTexts.size(); ++k) {
      if (i >= kTexts[k].size()) continue;
      EXPECT_EQ(json.MaskOf(forgets, forgotten[k]), json.MaskOf(keeps, kept[k])) << i;
      const std::string_view byte(&kTexts[k][i], 1);
      ASSERT_TRUE(keeps.Step(kept[k], byte)) << i;
      ASSERT_TRUE(forgets.Step(forgotten[k], byte)) << i;
      EXPECT_EQ(forgets.complete(forgotten[k]), keeps.complete(kept[k])) << i;
    }
  }
  EXPECT_TRUE(forgets.complete(forgotten[0]));
}

/// Others wait for each of its tokens: it must not take long again and again.
TEST(AnswerPlaces, AnAmbiguousAnswerEndsWhenItHasMadeTooMuchWork) {
  const auto automaton = std::make_shared<Automaton>(
      ReadGbnf("root ::= s\ns ::= [a-z ] s s | [a-z ] | [a-z ] s [a-z ] | [a-z ] s [a-z ] s"),
      std::chrono::milliseconds(20000));
  const auto trie = std::make_shared<TokenTrie>(std::vector<std::string>{"a", "ab", "abc"});
  StateMasks masks(automaton, trie);
  AnswerPlaces places(automaton, trie, masks, {.work = 200'000});
  AnswerPlaces::Place place;
  const auto answer = [&] {
    for (int i = 0; i < 100'000; ++i) {
      uint32_t bits = 0;
      places.Mask(place, {&bits, 1});
      ASSERT_TRUE(places.Step(place, "a"));
    }
  };
  EXPECT_THROW(answer(), Error);
}

/// Each of its characters is a place that nobody has been to.
TEST(AnswerPlaces, ALongAnswerInAPlainGrammarMakesNoMoreWorkThanItMay) {
  const auto automaton = std::make_shared<Automaton>(
      ReadJsonSchema(R"({"type": "string", "maxLength": 1000})"), std::chrono::milliseconds(20000));
  std::vector<std::string> bytes;
  for (char byte = ' '; byte <= '~'; ++byte) bytes.emplace_back(1, byte);
  const auto trie = std::make_shared<TokenTrie>(bytes);
  StateMasks masks(automaton, trie);
  AnswerPlaces places(automaton, trie, masks, {.work = 10'000});
  AnswerPlaces::Place place;
  for (const char byte : '"' + std::string(1000, 'a') + '"') {
    uint32_t bits[3] = {};
    ASSERT_NO_THROW(places.Mask(place, bits));
    ASSERT_TRUE(places.Step(place, {&byte, 1}));
  }
  EXPECT_TRUE(places.complete(place));
}

/// Requests keep a constraint that is only cloned; what was learnt need not outlast its time there.
TEST(AnswerPlaces, APlaceBeforeTheFirstByteKeepsNothing) {
  AnswersInJson json;
  AnswerPlaces places(json.automaton, json.trie, json.masks);
  const AnswerPlaces::Place place;
  EXPECT_FALSE(places.complete(place));
  EXPECT_EQ(place.in, nullptr);
  AnswerPlaces empty(std::make_shared<Automaton>(ReadRegex("a*"), std::chrono::milliseconds(20000)),
                     json.trie, json.masks);
  EXPECT_TRUE(empty.complete(place));
}

}  // namespace
}  // namespace oort::grammar
