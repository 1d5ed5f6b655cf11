// SPDX-License-Identifier: MIT
// Operators of images in NHWC are compared with those that torch has.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "layers/layout/axes.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {

using NamedParams = std::vector<std::pair<std::string, std::string>>;

/// The same image, of rank 3 or more, in NHWC.
inline Tensor WithNhwc(const Tensor& image) {
  Tensor result(image.dtype(), ToNhwc(image.shape()));
  const NhwcImage extents(result.shape());
  const int64_t pixels = extents.pixels(), channels = extents.channels;
  const size_t item = ItemSize(image.dtype()), step = static_cast<size_t>(channels) * item;
  const std::byte* source = image.raw();
  for (int64_t n = 0; n < extents.batch; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      std::byte* target =
          result.raw() + static_cast<size_t>(n * pixels) * step + static_cast<size_t>(c) * item;
      for (int64_t i = 0; i < pixels; ++i, source += item, target += step) {
        std::memcpy(target, source, item);
      }
    }
  }
  return result;
}

inline OperatorCase CaseOf(const std::string& type, const NamedParams& params,
                           const std::vector<Tensor>& inputs, int outputs = 1) {
  OperatorCase result(type);
  for (const auto& [key, text] : params) result.Param(key, text);
  for (const Tensor& input : inputs) result.Input(input);
  return result.Outputs(outputs);
}

/// nhwc.`last` gives what `first` gives, for images (…, C, H, W).
inline void ExpectLikeChannelsFirst(const std::string& last, const std::string& first,
                                    const NamedParams& params, const std::vector<Tensor>& images,
                                    int outputs = 1, Tolerance tolerance = {}) {
  SCOPED_TRACE(first + " of " + images.front().ToString());
  std::vector<Tensor> moved, expected;
  for (const Tensor& image : images) moved.push_back(WithNhwc(image));
  for (const Tensor& output : CaseOf(first, params, images, outputs).Run()) {
    expected.push_back(output.rank() < 3 ? output : WithNhwc(output));
  }
  CaseOf("nhwc." + last, params, moved, outputs).ExpectOutputs(expected, tolerance);
}

/// Images with all kinds of channel counts, batched and not, none of them large.
inline std::vector<Shape> OddImages(int64_t height, int64_t width) {
  std::vector<Shape> shapes;
  for (int64_t channels : {1, 2, 3, 4, 5, 8, 15, 17, 33, 64, 70}) {
    shapes.push_back({channels % 3 + 1, channels, height, width});
  }
  shapes.push_back({6, height, width});
  shapes.push_back({0, 3, height, width});
  return shapes;
}

}  // namespace oort::testing
