// SPDX-License-Identifier: MIT
// Resizing with a filter that widens where an image shrinks, so that every input counts.
#pragma once

#include <span>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/resize/resize_axis.h"
#include "layers/resize/resize_kernels.h"

namespace oort {

/// For each output the inputs under the filter, as many as there are, and their weights.
template <typename Real>
class FilterTaps {
 public:
  FilterTaps(const ResizeAxis& axis, ResizeMode mode, bool align_corners) {
    // torch leaves an axis alone that keeps its size, whatever its scale factor.
    const Real step = axis.in == axis.out ? Real(1) : CoordinateStep<Real>(axis, align_corners);
    const Real widening = std::max(step, Real(1));
    const Real support = widening * (mode == ResizeMode::kCubic ? Real(2) : Real(1));
    for (int64_t i = 0; i < axis.out; ++i) {
      const Real center = step * (static_cast<Real>(i) + Real(0.5));
      const auto bound = [&](Real at) {  // any number, NaN too, brought into the axis
        at += Real(0.5);
        if (!(at > 0)) return int64_t{0};
        if (!(at < static_cast<Real>(axis.in))) return axis.in;
        return std::min(static_cast<int64_t>(at), axis.in);
      };
      const int64_t first = bound(center - support), last = bound(center + support);
      first_.push_back(first);
      start_.push_back(weights_.size());
      Real total = 0;
      for (int64_t j = first; j < last; ++j) {
        const Real distance = (static_cast<Real>(j) - center + Real(0.5)) / widening;
        weights_.push_back(Weight(mode, std::abs(distance)));
        total += weights_.back();
      }
      if (total == 0) continue;
      for (size_t w = start_.back(); w < weights_.size(); ++w) weights_[w] /= total;
    }
    start_.push_back(weights_.size());
  }

  int64_t first(int64_t i) const { return first_[static_cast<size_t>(i)]; }
  std::span<const Real> weights(int64_t i) const {
    const size_t at = static_cast<size_t>(i);
    return std::span(weights_).subspan(start_[at], start_[at + 1] - start_[at]);
  }

 private:
  /// The triangle filter, or the cubic filter of Keys (1981) with a = -0.5. (Without antialiasing a
  /// is -0.75.)
  static Real Weight(ResizeMode mode, Real x) {
    if (mode != ResizeMode::kCubic) return x < 1 ? 1 - x : Real(0);
    const Real a = Real(-0.5);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : Real(0);
  }

  std::vector<int64_t> first_;
  std::vector<size_t> start_;
  std::vector<Real> weights_;
};

/// Bytes for the rows of an image that are resized along the width.
inline size_t AntialiasWorkspace(const ResizeGeometry& geometry, DType dtype) {
  const int64_t elements =
      Shape{geometry.planes, geometry.axes[1].in, geometry.axes[2].out}.elements();
  return CheckedMultiply(static_cast<size_t>(elements),
                         dtype == DType::kF64 ? sizeof(double) : sizeof(float));
}

/// Along the width, then along the height.
template <typename T>
void ResizeAntialiased(const Context& context, const ResizeGeometry& geometry, ResizeMode mode,
                       bool align_corners, const ResizeKernels& kernels, const T* in, T* out) {
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const ResizeAxis &height = geometry.axes[1], &width = geometry.axes[2];
  const FilterTaps<Real> down(height, mode, align_corners), along(width, mode, align_corners);
  Real* rows = context.workspace<Real>();
  const int64_t grain = 4096 / width.out + 1;
  context.ParallelFor(geometry.planes * height.in, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < width.out; ++i) {
        const T* from = in + r * width.in + along.first(i);
        Real sum = 0;
        for (Real weight : along.weights(i)) sum += static_cast<Real>(*from++) * weight;
        rows[r * width.out + i] = sum;
      }
    }
  });
  context.ParallelFor(geometry.planes * height.out, grain, [&](int64_t begin, int64_t end) {
    std::vector<const Real*> under;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t plane = r / height.out, i = r % height.out;
      const std::span<const Real> weights = down.weights(i);
      under.clear();
      for (size_t j = 0; j < weights.size(); ++j) {
        const int64_t row = plane * height.in + down.first(i) + static_cast<int64_t>(j);
        under.push_back(rows + row * width.out);
      }
      T* to = out + r * width.out;
      if constexpr (std::is_same_v<T, float>) {
        if (!under.empty()) {
          kernels.blend_rows(under.data(), weights.data(), static_cast<int>(under.size()), to,
                             width.out);
          continue;
        }
      }
      for (int64_t x = 0; x < width.out; ++x) {
        Real sum = 0;
        for (size_t j = 0; j < under.size(); ++j) sum += under[j][x] * weights[j];
        to[x] = static_cast<T>(sum);
      }
    }
  });
}

}  // namespace oort
