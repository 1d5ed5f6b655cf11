// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

/// The channels of one image and group as an im2col matrix: element (k, i) is what tap k (channel
/// outermost) of output pixel i reads.
struct Im2col {
  const float* image = nullptr;
  const float* image_end = nullptr;  ///< nothing is read from here on
  std::array<ConvAxis, 3> axes;
};

/// One channel of a depthwise convolution.
struct DepthwisePlane {
  const float* plane = nullptr;  ///< padded; readable a few vectors beyond its end
  int64_t row = 0;               ///< floats from one row to the next
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t out_h = 0, out_w = 0;
  const float* weight = nullptr;
  float bias = 0, low = 0, high = 0;
  float* out = nullptr;
};

struct Im2colKernels {
  /// As PanelSource::Pack.
  void (*pack)(const Im2col& image, int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
               float* panel);
};
OORT_DECLARE_KERNELS(Im2colKernels)

struct DepthwiseKernels {
  int slack;  ///< floats that may be read behind a padded plane
  void (*plane)(const DepthwisePlane& plane);
};
OORT_DECLARE_KERNELS(DepthwiseKernels)

/// Where a deformed tap reads for each of some pixels: the four elements at and around index[i]
/// (its right neighbour, and the two a row below), each with a weight.
struct DeformedTap {
  const int32_t* index = nullptr;
  std::array<const float*, 4> weights{};
};

struct DeformKernels {
  /// out[i] for i in [0, count); `row` floats from one row of the plane to the next.
  void (*gather)(const float* plane, int64_t row, const DeformedTap& tap, int64_t count,
                 float* out);
};
OORT_DECLARE_KERNELS(DeformKernels)

}  // namespace oort
