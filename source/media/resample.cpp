// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "oort/audio.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr int kPeriods = 6;        // of the sinc, to each side
constexpr double kRolloff = 0.99;  // of the lower of the two highest frequencies
constexpr int kHighestHertz = 768000;
constexpr int64_t kMostResampled = int64_t{1} << 28;
constexpr int64_t kKeptWeights = 1 << 20;

/// The weights of old samples in a new one, which depend only on where it lies between them.
struct SincTaps {
  int64_t first = 0;  // relative to the last old sample that is not behind the new one
  std::vector<float> weights;
};

class SincTable {
 public:
  SincTable(int64_t from, int64_t to) : from_(from), to_(to) {
    cutoff_ = kRolloff * static_cast<double>(std::min(from, to));
    reach_ = static_cast<int64_t>(std::ceil(kPeriods * static_cast<double>(from) / cutoff_));
    if ((2 * reach_ + 2) * to <= kKeptWeights) {
      kept_.resize(static_cast<size_t>(to));
      for (int64_t phase = 0; phase < to; ++phase) kept_[static_cast<size_t>(phase)] = Taps(phase);
    }
  }

  /// `phase` / to is the place of the new sample in periods of `from`'s and `to`'s common rate.
  const SincTaps& At(int64_t phase) {
    if (!kept_.empty()) return kept_[static_cast<size_t>(phase)];
    return made_ = Taps(phase);
  }

 private:
  SincTaps Taps(int64_t phase) const {
    // In units of one period of the common rate, old sample k lies at k / from, the new at phase /
    // to.
    const int64_t base = phase * from_ / to_;
    SincTaps taps{-reach_, {}};
    for (int64_t k = base - reach_; k <= base + reach_ + 1; ++k) {
      const double distance = (static_cast<double>(k) / static_cast<double>(from_) -
                               static_cast<double>(phase) / static_cast<double>(to_)) *
                              cutoff_;
      taps.weights.push_back(static_cast<float>(Weight(distance)));
    }
    return taps;
  }

  double Weight(double t) const {
    if (std::abs(t) >= kPeriods) return 0;
    const double window = std::cos(t * std::numbers::pi / kPeriods / 2);
    const double angle = t * std::numbers::pi;
    const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
    return sinc * window * window * cutoff_ / static_cast<double>(from_);
  }

  int64_t from_, to_, reach_ = 0;
  double cutoff_ = 0;
  std::vector<SincTaps> kept_;
  SincTaps made_;
};

}  // namespace

Audio Resample(const Audio& audio, int rate) {
  if (audio.rate < 1 || audio.rate > kHighestHertz || rate < 1 || rate > kHighestHertz) {
    throw Error(ErrorCode::kInvalidArgument, "sound cannot be resampled from " +
                                                 std::to_string(audio.rate) + " to " +
                                                 std::to_string(rate) + " Hz");
  }
  if (rate == audio.rate) return audio;
  const int64_t common = std::gcd(audio.rate, rate);
  const int64_t from = audio.rate / common, to = rate / common;
  const auto length = static_cast<int64_t>(audio.samples.size());
  if (length > kMostResampled || (length * to + from - 1) / from > kMostResampled) {
    throw Error(ErrorCode::kLimit, "resampled sound would have more than 268 million samples");
  }
  Audio result{rate, std::vector<float>(static_cast<size_t>((length * to + from - 1) / from))};
  SincTable table(from, to);
  for (int64_t n = 0; n < static_cast<int64_t>(result.samples.size()); ++n) {
    const SincTaps& taps = table.At(n % to);
    const int64_t first = n / to * from + n % to * from / to + taps.first;
    const int64_t begin = std::max<int64_t>(0, -first);
    const int64_t end = std::min(static_cast<int64_t>(taps.weights.size()), length - first);
    float sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      sum += taps.weights[static_cast<size_t>(k)] * audio.samples[static_cast<size_t>(first + k)];
    }
    result.samples[static_cast<size_t>(n)] = sum;
  }
  return result;
}

}  // namespace oort
