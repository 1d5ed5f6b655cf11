// SPDX-License-Identifier: MIT
// Speech around networks: when somebody speaks, and the rules by which Whisper writes. Link
// oort::media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "oort/session.h"
#include "oort/tokenizer.h"

namespace oort {

/// Samples from `begin` up to `end`.
struct SampleRange {
  int64_t begin = 0, end = 0;
};

struct SpeechOptions {
  int rate = 16000;
  int window = 512;          ///< samples that a probability stands for
  float threshold = 0.5f;    ///< speech begins at a window that is as likely as this
  float silence = 0.35f;     ///< and may end at one that is less likely than this
  double least_silence = 2;  ///< seconds of it that end speech
  double padding = 0.4;      ///< seconds that are kept before and behind speech
};

/// Where somebody speaks in `samples` samples, by the probabilities of its windows (silero-vad):
/// what faster-whisper keeps of a recording.
std::vector<SampleRange> FindSpeech(std::span<const float> probabilities, int64_t samples,
                                    const SpeechOptions& options = {});
/// The samples of all ranges, one behind the other. Throws kInvalidArgument for a range that
/// reaches beyond them.
std::vector<float> JoinRanges(std::span<const float> samples, std::span<const SampleRange> ranges);
/// When a time in the joined ranges was in the whole recording, in seconds. Where two ranges meet,
/// `is_end` is of the former.
double TimeInWhole(std::span<const SampleRange> ranges, int rate, double seconds, bool is_end);

/// Tokens of Whisper that are no text.
struct WhisperTokens {
  int32_t end = 0, start = 0, no_speech = 0, transcribe = 0, no_timestamps = 0;
  int32_t timestamps = 0;  ///< the first: 0.00 s; all that follow are 0.02 s apart

  /// Finds them by their names. Throws kInvalidModel where one is missing.
  static WhisperTokens Of(const Tokenizer& tokenizer);
};

/// Which token may come next, as Whisper was trained to write timestamps: in pairs, never going
/// back, the first within a second, and wherever they are likelier together than any text.
class WhisperRules {
 public:
  /// `suppressed` never come, `not_first` not at the beginning. Ids that the logits do not have are
  /// ignored.
  WhisperRules(const WhisperTokens& tokens, std::vector<int32_t> suppressed,
               std::vector<int32_t> not_first);

  /// Sets the logits of what may not follow the tokens of this window to minus infinity. Throws
  /// kInvalidArgument where the logits end before the timestamps.
  void Apply(std::span<const int32_t> written, std::span<float> logits) const;

 private:
  WhisperTokens tokens_;
  std::vector<int32_t> suppressed_, not_first_;
};

/// Whisper's encoder and decoder as graphs, and the window that they are at. Thread contract: one
/// thread at a time.
class WhisperNetworks {
 public:
  /// Reads encoder and decoder (.pnnx.param and .bin) from a folder, as tools/export-model.py
  /// writes them: the keys and values of attention are inputs and outputs. Throws what
  /// RuntimeGraph::Load throws, and kInvalidModel for other networks.
  explicit WhisperNetworks(const std::filesystem::path& folder, const LoadOptions& options = {});

  int mels() const { return static_cast<int>(input_[1]); }
  int64_t frames() const { return input_[2]; }  ///< of a window: 3000
  /// Hears `count` frames of a WhisperSpectrogram from frame `first`, and forgets all tokens.
  void Hear(const Tensor& spectrogram, int64_t first, int64_t count);
  /// Logits of the token that follows these, which follow those of earlier calls. They are the
  /// caller's to change.
  std::span<float> Step(std::span<const int32_t> tokens);

 private:
  void MakeRoom();

  Session encoder_, decoder_;
  Shape input_;
  Tensor logits_;
  std::vector<Tensor> heard_, cache_;  ///< keys and values of the decoder's layers
  int64_t cached_ = 0;                 ///< tokens
};

/// silero-vad as a graph, with the state of its LSTM as inputs and outputs.
class VoiceActivity {
 public:
  /// Reads `voice` (.pnnx.param and .bin) from a folder.
  explicit VoiceActivity(const std::filesystem::path& folder);

  /// How likely somebody speaks, for each window of 512 samples at 16 kHz; the last one is filled
  /// with silence.
  std::vector<float> Probabilities(std::span<const float> samples);

 private:
  Session network_;
};

/// What was said between two timestamps, in seconds from the beginning of the window.
struct WhisperSegment {
  double begin = 0, end = 0;
  std::vector<int32_t> tokens;
};

struct WhisperWindow {
  std::vector<WhisperSegment> segments;
  int64_t frames = 0;  ///< how far the next window is; at least 1
};

/// Parts the tokens of a window of `frames` frames, 100 a second, at their timestamps. What was not
/// finished is left to the next window.
WhisperWindow SplitWindow(std::span<const int32_t> written, int32_t timestamps, int64_t frames);

}  // namespace oort
