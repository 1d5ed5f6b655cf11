// SPDX-License-Identifier: MIT
// From a grid's coordinates to elements of an image. The arithmetic is torch's: images and volumes
// differ in their roundings and in what becomes of NaN. No coordinate leads outside of the image.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "layers/resize/resize_axis.h"

namespace oort {

enum class GridMode { kNearest, kLinear, kCubic };
enum class GridPadding { kZeros, kBorder, kReflection };

/// What one axis contributes to a sample; index -1 reads zero.
template <typename Real>
struct GridTap {
  int64_t index;
  Real weight;
};

template <typename Real>
class GridAxis {
 public:
  OORT_HOST_DEVICE GridAxis(int64_t size, bool align_corners, GridPadding padding, bool volume)
      : size_(size),
        last_(static_cast<Real>(size - 1)),
        align_(align_corners),
        padding_(padding),
        volume_(volume) {}

  /// One, two or four taps for a coordinate in -1…1.
  template <GridMode mode>
  OORT_HOST_DEVICE auto Taps(Real coordinate) const {
    if constexpr (mode == GridMode::kNearest) {
      return std::array{GridTap<Real>{Index(std::nearbyint(Source(coordinate))), Real(1)}};
    } else if constexpr (mode == GridMode::kLinear) {
      const Real at = Source(coordinate), floor = std::floor(at), part = at - floor;
      return std::array{GridTap<Real>{Index(floor), 1 - part},
                        GridTap<Real>{Index(floor + 1), part}};
    } else {
      const Real at = Unnormalized(coordinate), floor = std::floor(at);
      const std::array<Real, 4> weights = CubicWeights(at - floor);
      std::array<GridTap<Real>, 4> taps;
      for (size_t t = 0; t < 4; ++t) {
        taps[t] = {Index(Padded(floor + static_cast<Real>(t) - 1)), weights[t]};
      }
      return taps;
    }
  }

 private:
  OORT_HOST_DEVICE Real Unnormalized(Real x) const {
    const Real size = static_cast<Real>(size_);
    if (volume_) return align_ ? (x + 1) / 2 * last_ : ((x + 1) * size - 1) / 2;
    return align_ ? (x + 1) * (last_ / 2) : (x + 1) * (size / 2) - Real(0.5);
  }

  OORT_HOST_DEVICE Real Source(Real x) const { return Padded(Unnormalized(x)); }

  OORT_HOST_DEVICE Real Padded(Real at) const {
    if (padding_ == GridPadding::kZeros) return at;
    return Clipped(padding_ == GridPadding::kReflection ? Reflected(at) : at);
  }

  OORT_HOST_DEVICE Real Clipped(Real at) const {
    if (volume_ && at != at) return last_;
    return at < 0 ? Real(0) : at > last_ ? last_ : at;
  }

  /// Mirrored at the centres of the outermost elements, or at their edges.
  OORT_HOST_DEVICE Real Reflected(Real at) const {
    const Real low = align_ ? Real(0) : Real(-0.5);
    const Real span = align_ ? last_ : static_cast<Real>(size_);
    if (span <= 0) return 0;
    const Real distance = std::abs(at - low);
    if (volume_) {
      const Real rest = std::fmod(distance, span), flips = std::floor(distance / span);
      // torch counts in int, which ends at an odd number.
      const bool odd = flips > Real(2147483647) || std::fmod(flips, Real(2)) != 0;
      return (odd ? span - rest : rest) + low;
    }
    const Real rest = distance - std::trunc(distance / (2 * span)) * (2 * span);
    const Real back = 2 * span - rest;
    return (rest < back || rest != rest ? rest : back) + low;
  }

  /// NaN reads element 0: its weight is NaN, except for the nearest element.
  OORT_HOST_DEVICE int64_t Index(Real at) const {
    if (at != at) return 0;
    if (!(at >= 0 && at <= last_)) return -1;
    return std::min(static_cast<int64_t>(at), size_ - 1);  // last_ may have been rounded up
  }

  int64_t size_;
  Real last_;
  bool align_;
  GridPadding padding_;
  bool volume_;
};

}  // namespace oort
