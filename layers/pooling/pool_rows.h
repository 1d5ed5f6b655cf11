// SPDX-License-Identifier: MIT
// What the f32 paths of max and average pooling share: the row that the kernels fold into.
#pragma once

#include <array>
#include <vector>

#include "core/scratch_vector.h"
#include "layers/pooling/pool_kernels.h"
#include "layers/pooling/window.h"

namespace oort {

/// Floats for one row with its padding on both sides; on the stack where they are few.
class PoolRow {
 public:
  PoolRow(const WindowAxis& axis, float padding)
      : size_((axis.out - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1),
        pad_(axis.pad) {
    const int64_t needed = std::max(size_, axis.in + axis.pad);
    if (needed > static_cast<int64_t>(fixed_.size())) {
      large_.resize(static_cast<size_t>(needed));
      data_ = large_.data();
    }
    std::fill_n(data_, pad_, padding);
    if (size_ > axis.in + pad_) {
      std::fill(data_ + axis.in + pad_, data_ + size_, padding);
    }
  }
  PoolRow(const PoolRow&) = delete;
  PoolRow& operator=(const PoolRow&) = delete;
  float* padded() { return data_; }
  float* inner() { return data_ + pad_; }

  /// Whether padding costs little: a window may be far larger than the row under it.
  static bool Fits(const WindowAxis& axis) {
    return axis.dilation * (axis.kernel - 1) <= 2 * axis.in + 64;
  }

 private:
  std::array<float, 1024> fixed_;
  ScratchVector<float> large_;
  float* data_ = fixed_.data();
  int64_t size_, pad_;
};

/// The rows under output (d, h) of a plane.
inline PoolRows RowsUnder(const PlaneWindow& window, const float* plane, int64_t d, int64_t h) {
  const WindowAxis::Taps depth = window[0].At(d), height = window[1].At(h);
  const int64_t width = window[2].in, area = width * window[1].in;
  const bool empty = depth.count == 0 || height.count == 0;
  return {empty ? plane : plane + depth.begin * area + height.begin * width,
          empty ? 0 : depth.count,
          area * window[0].dilation,
          empty ? 0 : height.count,
          width * window[1].dilation,
          width};
}

}  // namespace oort
