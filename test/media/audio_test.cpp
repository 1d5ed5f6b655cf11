// SPDX-License-Identifier: MIT
#include "oort/audio.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kit/errors.h"
#include "kit/files.h"
#include "media/goldens.h"

namespace oort {
namespace {

using goldens::ExpectNear;
using goldens::Golden;
using goldens::GoldenTensor;

std::vector<float> Sound() {
  const Tensor sound = GoldenTensor("sound");
  return {sound.data<float>(), sound.data<float>() + sound.elements()};
}

Audio Decode(const std::string& text) { return DecodeWav(std::as_bytes(std::span(text)), "x.wav"); }

TEST(Audio, ReadsWavFilesAsSoundfile) {
  for (const char* kind : {"pcm_u8", "pcm_16", "pcm_24", "pcm_32", "float", "double"}) {
    SCOPED_TRACE(kind);
    const Audio audio = ReadWav(Golden(std::string(kind) + ".wav"));
    EXPECT_EQ(audio.rate, 8000);
    EXPECT_DOUBLE_EQ(audio.seconds(), 0.02);
    ExpectNear(audio.samples, GoldenTensor(kind), 1e-6);
  }
  ExpectNear(ReadWav(Golden("extensible.wav")).samples, GoldenTensor("pcm_16"), 1e-6);
}

TEST(Audio, WritesWhatItReads) {
  const testing::TemporaryFolder folder;
  const Audio audio{16000, {0, 0.5f, -1, 0.99f, 2, std::nanf("")}};
  WriteWav(folder / "a.wav", audio);
  const Audio back = ReadWav(folder / "a.wav");
  EXPECT_EQ(back.rate, 16000);
  const std::vector<float> wanted = {0, 0.5f, -1, 0.99f, 1, 0};
  ASSERT_EQ(back.samples.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(back.samples[i], wanted[i], 4e-5);
}

TEST(Audio, RefusesWhatIsNoWav) {
  const std::string whole = testing::FileBytes(Golden("pcm_16.wav"));
  testing::ExpectThrows([] { Decode("RIFF"); }, ErrorCode::kInvalidModel, "no WAV");
  testing::ExpectThrows([&] { Decode(whole.substr(0, 36)); }, ErrorCode::kInvalidModel, "'data'");
  std::string other = whole;
  other[20] = 85;  // MP3 in a WAV
  testing::ExpectThrows([&] { Decode(other); }, ErrorCode::kInvalidModel, "format 85");
  other = whole;
  other[22] = other[23] = 0;
  testing::ExpectThrows([&] { Decode(other); }, ErrorCode::kInvalidModel, "0 channels");
  other = whole;
  std::memcpy(other.data() + 12, "junk", 4);
  testing::ExpectThrows([&] { Decode(other); }, ErrorCode::kInvalidModel, "'fmt '");
  for (size_t i = 0; i < 44; ++i) {  // no byte of the header can do harm
    for (const unsigned char byte : {0x00, 0x7F, 0xFF}) {
      other = whole;
      other[i] = static_cast<char>(byte);
      try {
        Decode(other);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Audio, DataThatEndsEarlyIsWhatThereIs) {
  const std::string whole = testing::FileBytes(Golden("pcm_16.wav"));
  EXPECT_EQ(Decode(whole.substr(0, whole.size() - 6)).samples.size(), 158U);
}

TEST(Audio, ResamplesAsTorchaudio) {
  std::vector<float> sound = Sound();
  sound.resize(1500);
  for (const auto& [from, to] : {std::pair(44100, 16000), std::pair(8000, 16000),
                                 std::pair(16000, 11025), std::pair(3, 7)}) {
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    const Audio resampled = Resample({from, sound}, to);
    EXPECT_EQ(resampled.rate, to);
    ExpectNear(resampled.samples,
               GoldenTensor("resample-" + std::to_string(from) + "-" + std::to_string(to)), 2e-5);
  }
}

TEST(Audio, ResamplesBetweenRatesWithoutACommonFactor) {
  // The table of weights would not fit: they are computed as they are needed, and give the same.
  const std::vector<float> sound = Sound();
  const Audio near = Resample({99991, {sound.begin(), sound.begin() + 3000}}, 99989);
  EXPECT_EQ(near.samples.size(), 3000U);
  for (size_t i = 100; i < 2000; i += 100) EXPECT_NEAR(near.samples[i], sound[i], 0.1);
  testing::ExpectThrows([] { Resample({16000, {}}, 0); }, ErrorCode::kInvalidArgument, "0 Hz");
  testing::ExpectThrows(
      [] {
        Resample({1, std::vector<float>(1000)}, 768000);
      },
      ErrorCode::kLimit, "million");
}

TEST(Audio, MelSpectrogramsAsLibrosa) {
  const std::vector<float> sound = Sound();
  const auto expect = [&](const char* name, const MelOptions& options) {
    SCOPED_TRACE(name);
    const Tensor golden = GoldenTensor(name), ours = MelSpectrogram(sound, options);
    EXPECT_EQ(ours.shape(), golden.shape());
    ExpectNear(ours.span<float>(), golden, 1e-4, 1e-4);
  };
  expect("mel-default", {.fft = 512, .hop = 160, .mels = 40});
  expect("mel-htk", {.fft = 300, .hop = 100, .mels = 32, .low = 50, .high = 7000, .slaney = false});
  expect("mel-left", {.fft = 441, .hop = 220, .mels = 20, .centered = false, .power = false});
  ExpectNear(MelFilters({}).span<float>(), GoldenTensor("mel-filters"), 1e-7, 1e-5);
}

TEST(Audio, HearsWhatWhisperHears) {
  const Tensor ours = WhisperFeatures(Sound()), golden = GoldenTensor("whisper");
  ASSERT_EQ(ours.shape(), (Shape{1, 80, 3000}));
  std::vector<float> picked;
  for (int64_t mel = 0; mel < 80; ++mel) {
    const float* row = ours.data<float>() + mel * 3000;
    for (int64_t t = 0; t < 130; t += 3) picked.push_back(row[t]);
    for (int64_t t = 2996; t < 3000; ++t) picked.push_back(row[t]);
  }
  ExpectNear(picked, golden, 1e-3);
}

TEST(Audio, HearsAWholeRecordingAsFasterWhisperDoes) {
  const Tensor ours = WhisperSpectrogram(Sound()), golden = GoldenTensor("whisper-whole");
  ASSERT_EQ(ours.shape(), (Shape{80, 121}));
  std::vector<float> picked;
  for (int64_t mel = 0; mel < 80; ++mel) {
    for (int64_t t = 0; t < 121; t += 3) picked.push_back(ours.data<float>()[mel * 121 + t]);
  }
  ExpectNear(picked, golden, 1e-3);
  EXPECT_EQ(WhisperSpectrogram({}).shape(), (Shape{80, 1}));
}

TEST(Audio, RefusesSpectrogramsThatAreNone) {
  testing::ExpectThrows([] { MelSpectrogram({}, {.fft = 1}); }, ErrorCode::kInvalidArgument,
                        "fft 1");
  testing::ExpectThrows([] { MelSpectrogram({}, {.hop = 0}); }, ErrorCode::kInvalidArgument,
                        "hop 0");
  EXPECT_EQ(MelSpectrogram({}, {.centered = false}).shape(), (Shape{80, 0}));
  EXPECT_EQ(WhisperFeatures({}).shape(), (Shape{1, 80, 3000}));
}

}  // namespace
}  // namespace oort
