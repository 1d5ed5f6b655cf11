// SPDX-License-Identifier: MIT
// Which inputs an output of a resized axis is made of. The arithmetic is torch's, in torch's
// precision: a rounding more or less would pick another neighbour.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/host_device.h"
#include "oort/shape.h"

namespace oort {

enum class ResizeMode { kNearest, kNearestExact, kLinear, kCubic, kArea };

/// How one axis is resized.
struct ResizeAxis {
  int64_t in = 1, out = 1;
  double factor = 0;  ///< the scale factor if coordinates follow it; 0 for out / in
};

/// What an input becomes: its spatial axes, outermost first and always three.
struct ResizeGeometry {
  std::array<ResizeAxis, 3> axes;
  int64_t planes = 0;
  Shape output;
  int64_t in_plane() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_rows() const { return axes[0].out * axes[1].out; }
};

/// Step of the input coordinate for each output; Real is the type torch computes in.
template <typename Real>
Real CoordinateStep(const ResizeAxis& axis, bool align_corners) {
  if (align_corners) {
    return axis.out > 1 ? static_cast<Real>(axis.in - 1) / static_cast<Real>(axis.out - 1)
                        : Real(0);
  }
  if (axis.factor > 0) return static_cast<Real>(1.0 / axis.factor);
  return static_cast<Real>(axis.in) / static_cast<Real>(axis.out);
}

/// The input element for each output, for the modes that copy.
template <typename Real>
std::vector<int64_t> NearestIndices(const ResizeAxis& axis, bool exact) {
  const Real step = CoordinateStep<Real>(axis, false);
  const Real shift = exact ? Real(0.5) : Real(0);
  std::vector<int64_t> indices(static_cast<size_t>(axis.out));
  for (int64_t i = 0; i < axis.out; ++i) {
    const Real at = std::floor((static_cast<Real>(i) + shift) * step);
    indices[static_cast<size_t>(i)] = std::min(static_cast<int64_t>(at), axis.in - 1);
  }
  return indices;
}

/// Weights of the inputs at -1, 0, 1 and 2 for a point at `t` in 0…1: the cubic convolution of Keys
/// (1981).
template <typename Real>
OORT_HOST_DEVICE std::array<Real, 4> CubicWeights(Real t) {
  const Real a = Real(-0.75);
  const auto near = [&](Real x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](Real x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// For each output `taps` inputs and their weights: entry t * out + i is tap t of output i.
template <typename Real>
struct AxisTaps {
  int taps = 1;
  std::vector<int64_t> index;
  std::vector<Real> weight;

  AxisTaps(const ResizeAxis& axis, ResizeMode mode, bool align_corners) {
    if (axis.in == axis.out && axis.in == 1) {  // also stands for an axis that is not there
      index = {0};
      weight = {1};
      return;
    }
    taps = mode == ResizeMode::kCubic ? 4 : 2;
    index.resize(static_cast<size_t>(taps * axis.out));
    weight.resize(index.size());
    const Real step = CoordinateStep<Real>(axis, align_corners);
    for (int64_t i = 0; i < axis.out; ++i) {
      Real at = align_corners ? step * static_cast<Real>(i)
                              : step * (static_cast<Real>(i) + Real(0.5)) - Real(0.5);
      if (mode == ResizeMode::kCubic) {
        SetCubic(axis, i, at);
      } else {
        SetLinear(axis, i, axis.in == axis.out ? static_cast<Real>(i) : std::max(at, Real(0)));
      }
    }
  }

 private:
  void Set(const ResizeAxis& axis, int tap, int64_t i, int64_t from, Real value) {
    const size_t entry = static_cast<size_t>(tap * axis.out + i);
    index[entry] = std::clamp<int64_t>(from, 0, axis.in - 1);
    weight[entry] = value;
  }

  void SetLinear(const ResizeAxis& axis, int64_t i, Real at) {
    const int64_t first = std::min(static_cast<int64_t>(at), axis.in - 1);
    const Real part = std::clamp(at - static_cast<Real>(first), Real(0), Real(1));
    Set(axis, 0, i, first, Real(1) - part);
    Set(axis, 1, i, first + 1, part);
  }

  void SetCubic(const ResizeAxis& axis, int64_t i, Real at) {
    const int64_t first = std::min(static_cast<int64_t>(std::floor(at)), axis.in - 1);
    const Real t = std::clamp(at - static_cast<Real>(first), Real(0), Real(1));
    const std::array<Real, 4> weights = CubicWeights(t);
    for (int tap = 0; tap < 4; ++tap) {
      Set(axis, tap, i, first - 1 + tap, weights[static_cast<size_t>(tap)]);
    }
  }
};

}  // namespace oort
