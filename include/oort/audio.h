// SPDX-License-Identifier: MIT
// Sound before a network: WAV files, sampling rates, mel spectrograms. Link oort::media.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "oort/tensor.h"

namespace oort {

/// One channel of samples in -1 … 1.
struct Audio {
  int rate = 0;  ///< samples a second
  std::vector<float> samples;

  double seconds() const { return rate > 0 ? static_cast<double>(samples.size()) / rate : 0; }
};

/// RIFF/WAVE with integers of 8, 16, 24 or 32 bits or floats of 32 or 64; several channels become
/// their mean. Throws kIo, kNotFound, kInvalidModel for what is no such file and kLimit for more
/// than 268 million samples (90 minutes at 48 kHz).
Audio ReadWav(const std::filesystem::path& path);
/// The same from memory; `name` is for messages.
Audio DecodeWav(std::span<const std::byte> bytes, std::string_view name = "sound");
/// 16 bits, one channel; the file appears when it is whole.
void WriteWav(const std::filesystem::path& path, const Audio& audio);

/// Another sampling rate, by a sinc under a Hann window of six periods to each side: what
/// torchaudio.functional.resample gives. Rates of 1 to 768,000.
Audio Resample(const Audio& audio, int rate);

struct MelOptions {
  int rate = 16000, fft = 400, hop = 160, mels = 80;
  double low = 0, high = 0;  ///< Hz; 0 for the highest: half of the rate
  bool slaney =
      true;  ///< Slaney's scale and bands of equal area, librosa's default; else HTK's and plain
  bool centered = true;    ///< frames are centred on multiples of `hop`, the ends padded
  bool reflected = false;  ///< padded by reflection, not by zeros
  bool power = true;       ///< squares of magnitudes, else magnitudes
};

/// (mels, frames) of f32, under a periodic Hann window: what librosa.feature.melspectrogram gives.
Tensor MelSpectrogram(std::span<const float> samples, const MelOptions& options = {});
/// The bank of filters alone, (mels, fft / 2 + 1): librosa.filters.mel.
Tensor MelFilters(const MelOptions& options);

/// What Whisper hears: 30 seconds at 16 kHz, cut or filled with silence, as (1, mels, 3000).
Tensor WhisperFeatures(std::span<const float> samples, int mels = 80);
/// The same of a whole recording, as (mels, frames) with 100 frames a second, for who cuts windows
/// out of it: what faster-whisper makes. A window's missing frames are 0.
Tensor WhisperSpectrogram(std::span<const float> samples, int mels = 80);

}  // namespace oort
