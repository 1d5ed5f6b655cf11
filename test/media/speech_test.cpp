// SPDX-License-Identifier: MIT
#include "oort/speech.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "kit/paths.h"
#include "oort/error.h"

namespace oort {
namespace {

// A vocabulary of ten words, 10 … 14 that are no text, and 60 timestamps.
constexpr WhisperTokens kTokens{10, 11, 12, 13, 14, 15};
constexpr size_t kVocabulary = 75;

std::vector<size_t> Allowed(std::span<const int32_t> written, std::vector<float> logits) {
  const WhisperRules rules(kTokens, {3, 11, 12, 13, 99, -1}, {0, 10});
  rules.Apply(written, logits);
  std::vector<size_t> allowed;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) allowed.push_back(i);
  }
  return allowed;
}

/// Logits by which words are likelier than all timestamps together.
std::vector<float> Wordy() {
  std::vector<float> logits(kVocabulary, 0);
  std::fill_n(logits.begin(), 15, 9.0f);
  return logits;
}

std::vector<size_t> Range(size_t from, size_t to) {
  std::vector<size_t> range;
  for (size_t i = from; i < to; ++i) range.push_back(i);
  return range;
}

const std::vector<size_t> kWords = {0, 1, 2, 4, 5, 6, 7, 8, 9, 10};

TEST(WhisperRules, AWindowBeginsWithATimestampOfItsFirstSecond) {
  EXPECT_EQ(Allowed({}, Wordy()), Range(15, 66));
}

TEST(WhisperRules, TextFollowsAPairOfTimestamps) {
  EXPECT_EQ(Allowed(std::array{15}, Wordy()), kWords);
  EXPECT_EQ(Allowed(std::array{15, 4, 30, 30}, Wordy()), kWords);
}

TEST(WhisperRules, ATimestampThatEndsIsFollowedByAnotherOrByTheEnd) {
  std::vector<size_t> wanted = Range(30, kVocabulary);
  wanted.insert(wanted.begin(), 10);
  EXPECT_EQ(Allowed(std::array{15, 4, 30}, Wordy()), wanted);
}

TEST(WhisperRules, TimeGoesForward) {
  std::vector<size_t> wanted = kWords;
  for (const size_t time : Range(41, kVocabulary)) wanted.push_back(time);
  EXPECT_EQ(Allowed(std::array{15, 4, 30, 40, 5, 6}, Wordy()), wanted);
}

TEST(WhisperRules, TimestampsThatAreLikelierTogetherThanAWordComeNext) {
  std::vector<float> logits(kVocabulary, 0);
  logits[4] = 3.3f;  // 34 timestamps have log 34 = 3.53 together
  EXPECT_EQ(Allowed(std::array{15, 4, 30, 40, 5}, logits), Range(41, kVocabulary));
  logits[4] = 3.7f;
  EXPECT_NE(Allowed(std::array{15, 4, 30, 40, 5}, logits), Range(41, kVocabulary));
}

TEST(WhisperRules, LogitsOfAnotherModelAreRefused) {
  std::vector<float> logits(15);
  EXPECT_THROW(WhisperRules(kTokens, {}, {}).Apply({}, logits), Error);
}

TEST(SplitWindow, EachPairOfTimestampsPartsSegments) {
  const WhisperWindow window = SplitWindow(std::array{15, 1, 2, 25, 25, 3, 40, 42, 4}, 15, 3000);
  ASSERT_EQ(window.segments.size(), 2U);
  EXPECT_EQ(window.segments[0].tokens, (std::vector<int32_t>{15, 1, 2, 25}));
  EXPECT_DOUBLE_EQ(window.segments[0].end, 0.2);
  EXPECT_DOUBLE_EQ(window.segments[1].begin, 0.2);
  EXPECT_DOUBLE_EQ(window.segments[1].end, 0.5);
  EXPECT_EQ(window.frames, 50) << "what was not finished is heard again";
}

TEST(SplitWindow, OneTimestampAtTheEndMeansThatNothingFollows) {
  const WhisperWindow window = SplitWindow(std::array{15, 1, 25, 25, 3, 40}, 15, 3000);
  ASSERT_EQ(window.segments.size(), 2U);
  EXPECT_DOUBLE_EQ(window.segments[1].end, 0.5);
  EXPECT_EQ(window.frames, 3000);
}

TEST(SplitWindow, ASegmentAloneEndsAtItsTimestampOrWithTheWindow) {
  EXPECT_DOUBLE_EQ(SplitWindow(std::array{15, 1, 2, 35}, 15, 700).segments.at(0).end, 0.4);
  EXPECT_DOUBLE_EQ(SplitWindow(std::array{15, 1, 2}, 15, 700).segments.at(0).end, 7);
  EXPECT_EQ(SplitWindow(std::array{15, 1, 2, 35}, 15, 700).frames, 700);
}

TEST(SplitWindow, TheNextWindowIsAlwaysLater) {
  EXPECT_EQ(SplitWindow(std::array{15, 15, 1}, 15, 3000).frames, 1);
  EXPECT_EQ(SplitWindow({}, 15, 0).frames, 1);
}

/// Probabilities of so many windows each.
std::vector<float> Windows(std::initializer_list<std::pair<int, float>> parts) {
  std::vector<float> all;
  for (const auto& [count, chance] : parts) {
    all.insert(all.end(), static_cast<size_t>(count), chance);
  }
  return all;
}

std::vector<std::pair<int64_t, int64_t>> Found(const std::vector<float>& chances, int64_t samples) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const SampleRange& range : FindSpeech(chances, samples)) {
    found.emplace_back(range.begin, range.end);
  }
  return found;
}

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

TEST(FindSpeech, LongSilencePartsAndShortOneDoesNot) {
  const auto parts =
      Windows({{20, 0.1f}, {10, 0.9f}, {62, 0.1f}, {10, 0.9f}, {64, 0.1f}, {9, 0.7f}});
  EXPECT_EQ(Found(parts, 175 * 512),
            (Ranges{{20 * 512 - 6400, 102 * 512 + 6400}, {166 * 512 - 6400, 175 * 512}}));
}

TEST(FindSpeech, WhatIsNeitherKeepsWhatItWas) {
  const auto unsure = Windows({{5, 0.4f}, {20, 0.6f}, {90, 0.4f}, {4, 0.1f}});
  EXPECT_EQ(Found(unsure, 119 * 512), (Ranges{{0, 119 * 512}}));
  EXPECT_TRUE(Found(Windows({{90, 0.49f}}), 90 * 512).empty());
  EXPECT_TRUE(Found({}, 0).empty());
}

TEST(FindSpeech, RangesThatWouldOverlapMeetInTheMiddle) {
  const auto close = Windows({{10, 0.9f}, {21, 0.1f}, {10, 0.9f}});
  const auto ranges = FindSpeech(close, 41 * 512, {.least_silence = 0.5});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].end, ranges[1].begin);
  EXPECT_EQ(ranges[0].end, 10 * 512 + 21 * 512 / 2);
}

TEST(TimeInWhole, SilenceThatWasLeftOutCountsAgain) {
  const std::vector<SampleRange> ranges = {{100, 200}, {500, 800}};
  EXPECT_DOUBLE_EQ(TimeInWhole(ranges, 100, 0.5, false), 1.5);
  EXPECT_DOUBLE_EQ(TimeInWhole(ranges, 100, 1, true), 2);
  EXPECT_DOUBLE_EQ(TimeInWhole(ranges, 100, 1, false), 5);
  EXPECT_DOUBLE_EQ(TimeInWhole(ranges, 100, 9, false), 13) << "beyond the end it goes on";
  EXPECT_EQ(JoinRanges(std::vector<float>(800, 1), ranges).size(), 400U);
  EXPECT_THROW(JoinRanges(std::vector<float>(799), ranges), Error);
}

TEST(WhisperTokens, ATokenizerOfAnotherModelIsRefused) {
  const auto path = TestData() / "encoders" / "tiny_bert" / "tokenizer.json";
  EXPECT_THROW(WhisperTokens::Of(Tokenizer::FromFile(path)), Error);
  const auto whisper = TestData() / "cli" / "demos" / "listen";
  EXPECT_EQ(WhisperTokens::Of(Tokenizer::FromFile(whisper / "tokenizer.json")).timestamps, 266);
}

TEST(WhisperNetworks, TokensOneByOneGiveWhatTheyGiveAtOnce) {
  WhisperNetworks networks(TestData() / "cli" / "demos" / "listen");
  const Tensor sound = Tensor::Zeros(DType::kF32, {networks.mels(), 250});
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 140; ++i) tokens.push_back(7 * i % 250);  // past two growths of the cache
  networks.Hear(sound, 30, 100);
  const std::span<float> last = networks.Step(tokens);
  const std::vector<float> wanted(last.begin(), last.end());
  networks.Hear(sound, 30, 100);
  std::span<float> logits;
  for (const int32_t token : tokens) logits = networks.Step(std::array{token});
  ASSERT_EQ(logits.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(logits[i], wanted[i], 1e-3) << i;
}

TEST(WhisperNetworks, WhatDoesNotFitIsRefused) {
  const auto folder = TestData() / "cli" / "demos";
  EXPECT_THROW(WhisperNetworks(folder / "read"), Error);
  WhisperNetworks networks(folder / "listen");
  EXPECT_THROW(networks.Step(std::array{1}), Error) << "nothing was heard";
  EXPECT_THROW(networks.Hear(Tensor::Zeros(DType::kF32, {80, 50}), 0, 51), Error);
  EXPECT_THROW(networks.Hear(Tensor::Zeros(DType::kF32, {40, 50}), 0, 50), Error);
  networks.Hear(Tensor::Zeros(DType::kF32, {80, 50}), 0, 50);
  EXPECT_THROW(networks.Step(std::array{100000}), Error) << "no such token";
}

TEST(VoiceActivity, TheStateGoesFromPieceToPiece) {
  VoiceActivity voice(TestData() / "cli" / "demos" / "listen");
  const std::vector<float> loud(512 * 600, 0.05f);
  const std::vector<float> chances = voice.Probabilities(loud);
  ASSERT_EQ(chances.size(), 601U) << "the last one is filled up";
  // The stand-in for silero-vad is likelier by what it heard in the pieces of 256 windows before.
  EXPECT_NEAR(chances[10], 0.5f, 1e-3);
  EXPECT_NEAR(chances[300], 1 / (1 + std::exp(-0.05)), 1e-3);
  EXPECT_NEAR(chances[520], 1 / (1 + std::exp(-0.1)), 1e-3);
}

}  // namespace
}  // namespace oort
