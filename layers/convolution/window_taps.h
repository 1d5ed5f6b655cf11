// SPDX-License-Identifier: MIT
// Windows that slide over an image, one tap at a time: between the image and a value for each
// window. Here `in` of an axis counts windows and `out` is the extent of the image.
#pragma once

#include <algorithm>

#include "core/dispatch.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

/// Windows i in [begin, end) of an axis whose pixel i * stride + offset exists.
struct TapRange {
  TapRange(const ConvAxis& axis, int64_t tap) : offset(tap * axis.dilation - axis.pad) {
    begin = offset < 0 ? std::min(axis.in, (-offset + axis.stride - 1) / axis.stride) : 0;
    const int64_t room = axis.out - offset;
    end = room <= 0 ? 0 : std::min(axis.in, (room + axis.stride - 1) / axis.stride);
    begin = std::min(begin, end);
  }
  int64_t offset, begin, end;
};

/// The ranges of one tap, outermost axis first.
inline std::array<TapRange, 3> TapRanges(const std::array<ConvAxis, 3>& axes, int64_t tap) {
  const int64_t height = axes[1].kernel, width = axes[2].kernel;
  return {TapRange(axes[0], tap / width / height), TapRange(axes[1], tap / width % height),
          TapRange(axes[2], tap % width)};
}

/// 16-bit floats are rounded at every step, as in torch; integers wrap around.
template <typename T>
void AddTo(T& sum, T value) {
  if constexpr (kIsHalf<T>) {
    sum = T(static_cast<float>(sum) + static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    sum = sum || value;
  } else if constexpr (std::is_integral_v<T>) {
    sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value));
  } else {
    sum += value;
  }
}

/// Adds what one tap contributes: `values` holds one for each window.
template <typename T>
void ScatterTap(const std::array<ConvAxis, 3>& axes, int64_t tap, const T* values, T* plane) {
  const ConvAxis &d = axes[0], &h = axes[1], &w = axes[2];
  const auto [in_d, in_h, in_w] = TapRanges(axes, tap);
  for (int64_t z = in_d.begin; z < in_d.end; ++z) {
    for (int64_t y = in_h.begin; y < in_h.end; ++y) {
      const T* from = values + (z * h.in + y) * w.in;
      const int64_t row = (z * d.stride + in_d.offset) * h.out + y * h.stride + in_h.offset;
      const int64_t first = row * w.out + in_w.offset;
      for (int64_t x = in_w.begin; x < in_w.end; ++x) {
        AddTo(plane[first + x * w.stride], from[x]);
      }
    }
  }
}

/// The reverse: what one tap reads in each window, zero outside of the image.
template <typename T>
void GatherTap(const std::array<ConvAxis, 3>& axes, int64_t tap, const T* plane, T* values) {
  const ConvAxis &d = axes[0], &h = axes[1], &w = axes[2];
  const auto [in_d, in_h, in_w] = TapRanges(axes, tap);
  for (int64_t z = 0; z < d.in; ++z) {
    for (int64_t y = 0; y < h.in; ++y, values += w.in) {
      const bool inside = z >= in_d.begin && z < in_d.end && y >= in_h.begin && y < in_h.end;
      const int64_t begin = inside ? in_w.begin : w.in, end = inside ? in_w.end : w.in;
      std::fill(values, values + begin, T{});
      std::fill(values + end, values + w.in, T{});
      if (begin >= end) continue;
      const int64_t row = (z * d.stride + in_d.offset) * h.out + y * h.stride + in_h.offset;
      const T* from = plane + row * w.out + in_w.offset + begin * w.stride;
      if (w.stride == 1) {
        std::copy(from, from + (end - begin), values + begin);
      } else {
        for (int64_t x = begin; x < end; ++x) values[x] = from[(x - begin) * w.stride];
      }
    }
  }
}

}  // namespace oort
