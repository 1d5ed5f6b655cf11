// SPDX-License-Identifier: MIT
// Pictures as inputs of a model. Also used by the demos.
#pragma once

#include <filesystem>
#include <vector>

#include "oort/runtime_graph.h"

namespace oort::cli {

/// Rows of pixels of 1 (gray) or 3 (RGB) channels, each 0 … 255.
struct Image {
  int width = 0, height = 0, channels = 0;
  std::vector<float> pixels;

  float at(int y, int x, int channel) const {
    return pixels[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) *
                      static_cast<size_t>(channels) +
                  static_cast<size_t>(channel)];
  }
};

/// PNG, JPEG, BMP, PPM or PGM, in RGB; transparency is dropped. Throws kIo, kNotFound,
/// kInvalidModel for what is no picture and kLimit for more than 64 million pixels.
Image ReadImage(const std::filesystem::path& path);
/// Bilinear; when shrinking, every pixel counts, so that nothing flickers.
Image Resize(const Image& image, int width, int height);
/// Luminance as in ITU-R BT.601.
Image ToGray(const Image& image);

/// What happens to a pixel after it was divided by 255: inverted, then (x - mean) / std.
struct Normalization {
  std::vector<double> mean, std;  ///< one value, or one for each channel; empty: 0 and 1
  bool invert = false;
};

/// Resized to the traced shape of the input (N,C,H,W), (C,H,W) or (H,W); gray if the model takes
/// one channel. An extent that the trace does not know is the picture's own. Integer inputs get
/// the pixels as they are.
Tensor ImageToTensor(const Image& image, const Port& port, const Normalization& normalization);

}  // namespace oort::cli
