// SPDX-License-Identifier: MIT
#include "layers/resize/resize_bytes.h"

#include "layers/resize/antialias.h"

namespace oort {
namespace {

/// For each output the inputs that it is made of, each once, and their weights.
class ByteTaps {
 public:
  ByteTaps(const ResizeAxis& axis, ResizeMode mode, bool align_corners, bool antialias) {
    if (antialias) {
      Filter(axis, FilterTaps<double>(axis, mode, align_corners));
    } else {
      Interpolate(axis, AxisTaps<double>(axis, mode, align_corners));
    }
    start_.push_back(index_.size());
    Fix();
  }

  int shift() const { return shift_; }
  int64_t begin(int64_t i) const { return static_cast<int64_t>(start_[static_cast<size_t>(i)]); }
  int64_t index(int64_t tap) const { return index_[static_cast<size_t>(tap)]; }
  int32_t weight(int64_t tap) const { return fixed_[static_cast<size_t>(tap)]; }

 private:
  void Filter(const ResizeAxis& axis, const FilterTaps<double>& taps) {
    for (int64_t i = 0; i < axis.out; ++i) {
      start_.push_back(index_.size());
      int64_t at = taps.first(i);
      for (const double weight : taps.weights(i)) Add(at++, weight);
    }
  }

  void Interpolate(const ResizeAxis& axis, const AxisTaps<double>& taps) {
    for (int64_t i = 0; i < axis.out; ++i) {
      start_.push_back(index_.size());
      for (int tap = 0; tap < taps.taps; ++tap) {
        const auto entry = static_cast<size_t>(tap * axis.out + i);
        Add(taps.index[entry], taps.weight[entry]);
      }
    }
  }

  /// Beyond an edge the edge counts, with all the weights that fall there.
  void Add(int64_t index, double weight) {
    if (index_.size() > start_.back() && index_.back() == index) {
      exact_.back() += weight;
      return;
    }
    index_.push_back(index);
    exact_.push_back(weight);
  }

  /// As many bits behind the point as leave the largest weight within 16.
  void Fix() {
    double largest = 0;
    for (double& weight : exact_) {
      if (!(std::abs(weight) < 2)) weight = 0;  // of a scale factor beyond all bounds
      largest = std::max(largest, weight);
    }
    while (shift_ < 22 && 0.5 + std::ldexp(largest, shift_ + 1) < 0x1p15) ++shift_;
    for (const double weight : exact_) {
      fixed_.push_back(
          static_cast<int32_t>(std::ldexp(weight, shift_) + (weight < 0 ? -0.5 : 0.5)));
    }
  }

  int shift_ = 0;
  std::vector<size_t> start_;
  std::vector<int64_t> index_;
  std::vector<double> exact_;
  std::vector<int32_t> fixed_;
};

uint8_t RoundedByte(int32_t sum, int shift) {
  return static_cast<uint8_t>(std::clamp(sum >> shift, 0, 255));
}

int32_t RoundingBit(int shift) { return shift > 0 ? int32_t{1} << (shift - 1) : 0; }

}  // namespace

int64_t ResizeBytesWorkspace(const ResizeGeometry& geometry) {
  return Shape{geometry.planes, geometry.axes[1].in, geometry.axes[2].out}.elements();
}

void ResizeBytes(const Context& context, const ResizeGeometry& geometry, ResizeMode mode,
                 bool align_corners, bool antialias, const uint8_t* input, uint8_t* output) {
  const ResizeAxis &height = geometry.axes[1], &width = geometry.axes[2];
  const ByteTaps columns(width, mode, align_corners, antialias);
  const ByteTaps rows(height, mode, align_corners, antialias);
  auto* narrowed = context.workspace<uint8_t>();
  const int64_t grain = 16384 / width.out + 1;
  context.ParallelFor(geometry.planes * height.in, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const uint8_t* from = input + row * width.in;
      uint8_t* to = narrowed + row * width.out;
      for (int64_t i = 0; i < width.out; ++i) {
        int32_t sum = RoundingBit(columns.shift());
        for (int64_t tap = columns.begin(i); tap < columns.begin(i + 1); ++tap) {
          sum += columns.weight(tap) * from[columns.index(tap)];
        }
        to[i] = RoundedByte(sum, columns.shift());
      }
    }
  });
  context.ParallelFor(geometry.planes * height.out, grain, [&](int64_t first, int64_t last) {
    std::vector<int32_t> sums(static_cast<size_t>(width.out));
    for (int64_t row = first; row < last; ++row) {
      const uint8_t* plane = narrowed + row / height.out * height.in * width.out;
      const int64_t i = row % height.out;
      std::fill(sums.begin(), sums.end(), RoundingBit(rows.shift()));
      for (int64_t tap = rows.begin(i); tap < rows.begin(i + 1); ++tap) {
        const uint8_t* from = plane + rows.index(tap) * width.out;
        const int32_t weight = rows.weight(tap);
        for (int64_t x = 0; x < width.out; ++x) {
          sums[static_cast<size_t>(x)] += weight * from[x];
        }
      }
      uint8_t* to = output + row * width.out;
      for (int64_t x = 0; x < width.out; ++x) {
        to[x] = RoundedByte(sums[static_cast<size_t>(x)], rows.shift());
      }
    }
  });
}

}  // namespace oort
