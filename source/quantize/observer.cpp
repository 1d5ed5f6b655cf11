// SPDX-License-Identifier: MIT
#include "quantize/observer.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "quantize/calibration.h"

namespace oort::quantize {
namespace {

/// Bins of a smaller reach would have no normal f32 as their width.
constexpr int kLeastExponent = -100;

struct Ends {
  float low, high;
  bool finite;
};

const CalibrationKernels& CountingKernels() {
  static const CalibrationKernels& kernels = CalibrationKernelsFor(DefaultIsa());
  return kernels;
}

/// Values that are counted by one thread at least: fewer are done before another one wakes.
constexpr size_t kPiece = 1 << 16;
/// Values that one thread counts at most, so that 32 bits hold how often each bin occurs.
constexpr size_t kMostOfPiece = 1 << 30;

size_t PiecesOf(size_t values, int threads) {
  const size_t wanted = std::min(values / kPiece, static_cast<size_t>(std::max(threads, 1)));
  return std::max({wanted, (values + kMostOfPiece - 1) / kMostOfPiece, size_t{1}});
}

std::span<const float> PieceOf(std::span<const float> values, size_t piece, size_t pieces) {
  const size_t begin = values.size() * piece / pieces, end = values.size() * (piece + 1) / pieces;
  return values.subspan(begin, end - begin);
}

void ForPieces(int threads, size_t pieces, FunctionRef<void(size_t piece)> body) {
  if (pieces == 1) return body(0);
  ParallelFor(threads, static_cast<int64_t>(pieces), 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) body(static_cast<size_t>(piece));
  });
}

Ends EndsOf(std::span<const float> values, int threads) {
  std::vector<Ends> ends(PiecesOf(values.size(), threads));
  ForPieces(threads, ends.size(), [&](size_t piece) {
    const std::span<const float> part = PieceOf(values, piece, ends.size());
    Ends& of = ends[piece];
    of.finite =
        CountingKernels().ends(part.data(), static_cast<int64_t>(part.size()), &of.low, &of.high);
  });
  Ends all = ends.front();
  for (const Ends& each : ends) {
    all.low = std::min(all.low, each.low);
    all.high = std::max(all.high, each.high);
    all.finite = all.finite && each.finite;
  }
  return all;
}

}  // namespace

void Histogram::GrowTo(float magnitude) {
  if (magnitude == 0 || (reach_ > 0 && magnitude < reach_)) return;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  const double wanted = std::ldexp(1.0, std::max(exponent, kLeastExponent));
  if (counts_.empty()) {
    counts_.assign(kBins, 0);
    reach_ = wanted;
    return;
  }
  for (; reach_ < wanted; reach_ *= 2) {
    std::vector<uint64_t> merged(kBins, 0);
    for (int i = 0; i < kBins; ++i) {
      merged[static_cast<size_t>(kBins / 4 + i / 2)] += counts_[static_cast<size_t>(i)];
    }
    counts_ = std::move(merged);
  }
}

void Histogram::Add(std::span<const float> values, float most, int threads) {
  GrowTo(most);
  total_ += values.size();
  if (most == 0) {
    zeros_ += values.size();
    return;
  }
  const auto scale = static_cast<float>(kBins / 2 / reach_);
  constexpr size_t kSlots = BinCounts::kSlots;
  const size_t pieces = PiecesOf(values.size(), threads);
  std::vector<uint32_t> counts(pieces * BinCounts::kTables * kSlots, 0);
  ForPieces(threads, pieces, [&](size_t piece) {
    const std::span<const float> part = PieceOf(values, piece, pieces);
    CountingKernels().count(part.data(), static_cast<int64_t>(part.size()), scale,
                            counts.data() + piece * BinCounts::kTables * kSlots);
  });
  for (size_t table = 0; table < counts.size(); table += kSlots) {
    for (size_t bin = 0; bin < kBins; ++bin) counts_[bin] += counts[table + bin];
    for (size_t slot = kBins; slot < kSlots; ++slot) zeros_ += counts[table + slot];
  }
}

bool Observer::Add(std::span<const float> values, int threads) {
  if (values.empty()) return true;
  const Ends ends = EndsOf(values, threads);
  if (!ends.finite) return false;
  // A sum with 0 makes 0 of -0: which of them comes first depends on the number of threads.
  const float low = ends.low + 0.0f, high = ends.high + 0.0f;
  if (empty()) {
    min_ = moving_min_ = low;
    max_ = moving_max_ = high;
  } else {
    min_ = std::min<double>(min_, low);
    max_ = std::max<double>(max_, high);
    moving_min_ += kMomentum * (low - moving_min_);
    moving_max_ += kMomentum * (high - moving_max_);
  }
  histogram_.Add(values, std::max(std::fabs(low), std::fabs(high)), threads);
  return true;
}

}  // namespace oort::quantize
