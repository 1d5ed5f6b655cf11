// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>

#include "media/fourier.h"
#include "oort/audio.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr int kLargestFourier = 1 << 16, kMostMels = 1024;

/// Slaney's scale is linear below 1 kHz and logarithmic above; HTK's is one logarithm.
double HertzToMel(double hertz, bool slaney) {
  if (!slaney) return 2595 * std::log10(1 + hertz / 700);
  return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}

double MelToHertz(double mel, bool slaney) {
  if (!slaney) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

void CheckMel(const MelOptions& options) {
  const double high = options.high > 0 ? options.high : options.rate / 2.0;
  const bool sound = options.rate >= 1 && options.fft >= 2 && options.fft <= kLargestFourier &&
                     options.hop >= 1 && options.mels >= 1 && options.mels <= kMostMels &&
                     options.low >= 0 && options.low < high;
  if (sound) return;
  throw Error(ErrorCode::kInvalidArgument,
              "no mel spectrogram has rate " + std::to_string(options.rate) + ", fft " +
                  std::to_string(options.fft) + " (2 … 65536), hop " + std::to_string(options.hop) +
                  " and " + std::to_string(options.mels) + " bands (1 … 1024) from " +
                  std::to_string(options.low) + " to " + std::to_string(high) + " Hz");
}

/// A sample beyond the ends: 0, or that of the mirror at the end.
float Padded(std::span<const float> samples, int64_t index, bool reflected) {
  const auto length = static_cast<int64_t>(samples.size());
  if (index >= 0 && index < length) return samples[static_cast<size_t>(index)];
  if (!reflected || length == 0) return 0;
  if (length == 1) return samples[0];
  const int64_t period = 2 * (length - 1);
  const int64_t place = ((index % period) + period) % period;
  return samples[static_cast<size_t>(place < length ? place : period - place)];
}

/// Powers of all frequencies of two frames at a time: one is the real part, one the imaginary.
class Spectrum {
 public:
  Spectrum(std::span<const float> samples, const MelOptions& options)
      : samples_(samples),
        options_(options),
        size_(static_cast<size_t>(options.fft)),
        fourier_(size_),
        window_(size_),
        in_(size_),
        out_(size_) {
    for (size_t i = 0; i < size_; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / options.fft;
      window_[i] = static_cast<float>(0.5 - 0.5 * std::cos(angle));
    }
  }

  void Pair(int64_t frame, float* first, float* second) {
    const int64_t begin = frame * options_.hop - (options_.centered ? options_.fft / 2 : 0);
    for (size_t i = 0; i < size_; ++i) {
      const auto at = begin + static_cast<int64_t>(i);
      in_[i] = {window_[i] * Padded(samples_, at, options_.reflected),
                window_[i] * Padded(samples_, at + options_.hop, options_.reflected)};
    }
    fourier_.Transform(in_, out_);
    for (size_t k = 0; k <= size_ / 2; ++k) {
      const std::complex<float> a = out_[k], b = std::conj(out_[(size_ - k) % size_]);
      first[k] = Strength(std::norm(a + b) / 4);
      second[k] = Strength(std::norm(a - b) / 4);
    }
  }

 private:
  float Strength(float power) const { return options_.power ? power : std::sqrt(power); }

  std::span<const float> samples_;
  const MelOptions& options_;
  size_t size_;
  media::Fourier fourier_;
  std::vector<float> window_;
  std::vector<std::complex<float>> in_, out_;
};

/// A band sees only few frequencies: from the first to the last weight that is not 0.
struct Band {
  size_t first = 0, last = 0;
};

std::vector<Band> BandsOf(const Tensor& filters) {
  const auto width = static_cast<size_t>(filters.dim(1));
  std::vector<Band> bands(static_cast<size_t>(filters.dim(0)));
  for (size_t m = 0; m < bands.size(); ++m) {
    const float* row = filters.data<float>() + m * width;
    const auto lit = [](float weight) { return weight != 0; };
    bands[m].first = static_cast<size_t>(std::find_if(row, row + width, lit) - row);
    bands[m].last = bands[m].first;
    for (size_t k = bands[m].first; k < width; ++k) {
      if (row[k] != 0) bands[m].last = k + 1;
    }
  }
  return bands;
}

int64_t FramesOf(int64_t samples, const MelOptions& options) {
  const int64_t padded = samples + (options.centered ? options.fft / 2 * int64_t{2} : 0);
  return padded < options.fft ? 0 : 1 + (padded - options.fft) / options.hop;
}

/// Ten decibels a unit, the last eight of them, about -1 … 1; the last frame is not used.
Tensor WhisperLogarithm(std::span<const float> samples, int mels) {
  const Tensor power = MelSpectrogram(samples, {.mels = mels, .reflected = true});
  const int64_t frames = power.dim(1) - 1;
  Tensor result(DType::kF32, {mels, frames});
  float* out = result.data<float>();
  float most = -10;
  for (int64_t m = 0; m < mels; ++m) {
    for (int64_t t = 0; t < frames; ++t) {
      const float value = std::log10(std::max(power.data<float>()[m * (frames + 1) + t], 1e-10f));
      out[m * frames + t] = value;
      most = std::max(most, value);
    }
  }
  for (float& value : std::span(out, static_cast<size_t>(mels * frames))) {
    value = (std::max(value, most - 8) + 4) / 4;
  }
  return result;
}

}  // namespace

Tensor MelFilters(const MelOptions& options) {
  CheckMel(options);
  const double high = options.high > 0 ? options.high : options.rate / 2.0;
  const double low_mel = HertzToMel(options.low, options.slaney);
  const double step = (HertzToMel(high, options.slaney) - low_mel) / (options.mels + 1);
  const int64_t width = options.fft / 2 + 1;
  Tensor filters(DType::kF32, {options.mels, width});
  float* out = filters.data<float>();
  for (int m = 0; m < options.mels; ++m) {
    const double left = MelToHertz(low_mel + m * step, options.slaney);
    const double center = MelToHertz(low_mel + (m + 1) * step, options.slaney);
    const double right = MelToHertz(low_mel + (m + 2) * step, options.slaney);
    const double area = options.slaney ? 2 / (right - left) : 1;
    for (int64_t k = 0; k < width; ++k) {
      const double hertz = static_cast<double>(k) * options.rate / options.fft;
      const double rise = (hertz - left) / (center - left),
                   fall = (right - hertz) / (right - center);
      *out++ = static_cast<float>(std::max(0.0, std::min(rise, fall)) * area);
    }
  }
  return filters;
}

Tensor MelSpectrogram(std::span<const float> samples, const MelOptions& options) {
  const Tensor filters = MelFilters(options);
  const std::vector<Band> bands = BandsOf(filters);
  const auto width = static_cast<size_t>(filters.dim(1));
  const int64_t frames = FramesOf(static_cast<int64_t>(samples.size()), options);
  Tensor result(DType::kF32, {options.mels, frames});
  Spectrum spectrum(samples, options);
  std::vector<float> powers(2 * width);
  for (int64_t frame = 0; frame < frames; ++frame) {
    if (frame % 2 == 0) spectrum.Pair(frame, powers.data(), powers.data() + width);
    const float* power = powers.data() + (frame % 2 == 0 ? 0 : width);
    for (size_t m = 0; m < bands.size(); ++m) {
      const float* row = filters.data<float>() + m * width;
      float sum = 0;
      for (size_t k = bands[m].first; k < bands[m].last; ++k) sum += row[k] * power[k];
      result.data<float>()[static_cast<int64_t>(m) * frames + frame] = sum;
    }
  }
  return result;
}

Tensor WhisperFeatures(std::span<const float> samples, int mels) {
  constexpr size_t kSeconds = 30, kRate = 16000;
  std::vector<float> heard(kSeconds * kRate);
  std::copy_n(samples.begin(), std::min(samples.size(), heard.size()), heard.begin());
  const Tensor features = WhisperLogarithm(heard, mels);
  return features.Reshaped({1, mels, features.dim(1)});
}

Tensor WhisperSpectrogram(std::span<const float> samples, int mels) {
  std::vector<float> heard(samples.begin(), samples.end());
  heard.resize(heard.size() + static_cast<size_t>(MelOptions{}.hop));
  return WhisperLogarithm(heard, mels);
}

}  // namespace oort
