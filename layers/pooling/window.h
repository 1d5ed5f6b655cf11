// SPDX-License-Identifier: MIT
// Sliding windows of pooling operators: one to three spatial axes, always handled as three.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "core/host_device.h"
#include "oort/layer.h"

namespace oort {

/// One spatial axis: output i covers inputs i * stride - pad + j * dilation, 0 <= j < kernel.
struct WindowAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;

  struct Taps {
    int64_t begin;  ///< first input that is no padding
    int64_t count;  ///< inputs from there on, `dilation` apart
  };
  OORT_HOST_DEVICE Taps At(int64_t i) const {
    const int64_t start = i * stride - pad;
    const int64_t skip = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t end = start < in ? (in - start + dilation - 1) / dilation : 0;
    return {start + skip * dilation, std::max<int64_t>(0, std::min(kernel, end) - skip)};
  }
  /// Inputs and padding under window i; what sticks out beyond the padding does not count.
  OORT_HOST_DEVICE int64_t PaddedCount(int64_t i) const {
    const int64_t start = i * stride - pad;
    return std::min(start + kernel, in + pad) - start;
  }
};

/// The windows of one plane, outermost axis first; axes that are not there have extent 1.
using PlaneWindow = std::array<WindowAxis, 3>;

struct WindowTaps {
  int64_t out_depth, out_height, out_width;  ///< which window
  WindowAxis::Taps depth, height, width;     ///< what lies under it
  int64_t count() const { return depth.count * height.count * width.count; }
};

/// Calls body(WindowTaps) for each window of a plane, in the order of the outputs.
template <typename Body>
void ForEachWindow(const PlaneWindow& window, Body body) {
  for (int64_t od = 0; od < window[0].out; ++od) {
    const WindowAxis::Taps depth = window[0].At(od);
    for (int64_t oh = 0; oh < window[1].out; ++oh) {
      const WindowAxis::Taps height = window[1].At(oh);
      for (int64_t ow = 0; ow < window[2].out; ++ow) {
        body(WindowTaps{od, oh, ow, depth, height, window[2].At(ow)});
      }
    }
  }
}

/// Calls body(place in the plane) for each input under a window.
template <typename Body>
void ForEachTap(const PlaneWindow& window, const WindowTaps& taps, Body body) {
  const auto& [depth, height, width] = window;
  for (int64_t d = 0; d < taps.depth.count; ++d) {
    const int64_t plane = (taps.depth.begin + d * depth.dilation) * height.in;
    for (int64_t h = 0; h < taps.height.count; ++h) {
      const int64_t row = (plane + taps.height.begin + h * height.dilation) * width.in;
      for (int64_t w = 0; w < taps.width.count; ++w) {
        body(row + taps.width.begin + w * width.dilation);
      }
    }
  }
}

struct PoolGeometry {
  PlaneWindow window;
  int64_t planes = 0;
  Shape output;
  int64_t in_plane() const { return window[0].in * window[1].in * window[2].in; }
  int64_t out_plane() const { return window[0].out * window[1].out * window[2].out; }
};

/// The parameters that pooling operators share.
class WindowParams {
 public:
  /// Reads kernel_size, stride, padding, dilation and ceil_mode, as far as the schema has them.
  WindowParams(const LayerInit& init, int spatial_rank);
  /// Throws kInvalidArgument unless `input` is (C, spatial…) or (N, C, spatial…) and at least one
  /// window fits.
  PoolGeometry Geometry(const Shape& input) const;
  int spatial_rank() const { return rank_; }
  int64_t KernelElements() const;
  /// `cost` with an operation for each element under each window.
  Cost Work(Cost cost, const Value& output) const {
    cost.flops =
        static_cast<double>(output.AsTensor().elements()) * static_cast<double>(KernelElements());
    return cost;
  }

 private:
  int rank_;
  bool ceil_mode_;
  std::array<int64_t, 3> kernel_{1, 1, 1}, stride_{1, 1, 1}, pad_{0, 0, 0}, dilation_{1, 1, 1};
};

/// Throws unless `input` is (C, spatial…) or (N, C, spatial…) and no spatial extent is zero.
void CheckPoolInput(const Shape& input, int spatial_rank);

/// {"nn.MaxPool2d", "F.max_pool2d"} from ("MaxPool", "max_pool", 2).
std::vector<std::string> PoolTypes(const std::string& module, const std::string& function,
                                   int rank);

/// The role of poolings with an NHWC form, which gives no indices.
NhwcRole FollowsWithoutIndices(const Operator& op, int rank);

/// A creator that calls L(init, spatial_rank).
template <typename L>
LayerCreator CreatePool(int spatial_rank) {
  return [spatial_rank](const LayerInit& init) { return std::make_unique<L>(init, spatial_rank); };
}

/// Planes that are worth a thread of their own.
inline int64_t PlaneGrain(const PoolGeometry& geometry) {
  constexpr int64_t kElements = 16384;
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, geometry.in_plane()));
}

}  // namespace oort
