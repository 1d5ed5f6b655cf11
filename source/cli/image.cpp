// SPDX-License-Identifier: MIT
#include "cli/image.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <memory>

#include "oort/source.h"

namespace oort::cli {
namespace {

constexpr int64_t kMaxPixels = 64 << 20;

/// The pixels that one new pixel is made of, and their weights.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

/// A triangle as wide as the larger of the two pixel sizes, centred on the new pixel.
std::vector<Taps> TriangleTaps(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double radius = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(std::floor(center - radius)));
    const int last = std::min(from - 1, static_cast<int>(std::ceil(center + radius)));
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    double sum = 0;
    for (int j = first; j <= last; ++j) {
      const double weight = std::max(0.0, 1 - std::abs(j + 0.5 - center) / radius);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

Image MakeImage(int width, int height, int channels) {
  return {width, height, channels,
          std::vector<float>(static_cast<size_t>(width) * static_cast<size_t>(height) *
                             static_cast<size_t>(channels))};
}

Image ResizeWidth(const Image& image, int width) {
  Image result = MakeImage(width, image.height, image.channels);
  const std::vector<Taps> taps = TriangleTaps(image.width, width);
  float* out = result.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    for (const Taps& tap : taps) {
      for (int c = 0; c < image.channels; ++c) {
        float sum = 0;
        for (size_t k = 0; k < tap.weights.size(); ++k) {
          sum += tap.weights[k] * image.at(y, tap.first + static_cast<int>(k), c);
        }
        *out++ = sum;
      }
    }
  }
  return result;
}

Image ResizeHeight(const Image& image, int height) {
  Image result = MakeImage(image.width, height, image.channels);
  const std::vector<Taps> taps = TriangleTaps(image.height, height);
  const auto row = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  for (int y = 0; y < height; ++y) {
    const Taps& tap = taps[static_cast<size_t>(y)];
    float* out = result.pixels.data() + static_cast<size_t>(y) * row;
    for (size_t k = 0; k < tap.weights.size(); ++k) {
      const float* in = image.pixels.data() + (static_cast<size_t>(tap.first) + k) * row;
      for (size_t x = 0; x < row; ++x) out[x] += tap.weights[k] * in[x];
    }
  }
  return result;
}

double PerChannel(const std::vector<double>& values, int channel, int channels, double otherwise,
                  const char* what) {
  if (values.empty()) return otherwise;
  if (values.size() == 1) return values[0];
  if (values.size() != static_cast<size_t>(channels)) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string(what) + " has " + std::to_string(values.size()) +
                    " values for a picture of " + std::to_string(channels) + " channels");
  }
  return values[static_cast<size_t>(channel)];
}

/// The traced (channels, height, width) of an input; -1 where unknown.
std::array<int64_t, 3> PictureShape(const Port& port) {
  if (!port.has_shape) return {-1, -1, -1};
  const Shape& shape = port.shape;
  switch (shape.rank()) {
    case 4: return {shape[1], shape[2], shape[3]};
    case 3: return {shape[0], shape[1], shape[2]};
    case 2: return {1, shape[0], shape[1]};
    default:
      throw Error(ErrorCode::kInvalidArgument, "input " + port.name + " of shape " +
                                                   shape.ToString() +
                                                   " is no picture; give it a .npy file");
  }
}

}  // namespace

Image ReadImage(const std::filesystem::path& path) {
  const auto source = ByteSource::File(path);
  const auto buffer = source->MapOrRead(0, source->size());
  const auto* bytes = reinterpret_cast<const stbi_uc*>(buffer->data());
  int width = 0, height = 0, channels = 0;
  const int length = source->size() > INT_MAX ? 0 : static_cast<int>(source->size());
  if (length == 0 || stbi_info_from_memory(bytes, length, &width, &height, &channels) == 0) {
    throw Error(ErrorCode::kInvalidModel,
                "'" + path.string() + "' is neither .npy nor PNG, JPEG, BMP, PPM or PGM");
  }
  if (int64_t{width} * height > kMaxPixels) {
    throw Error(ErrorCode::kLimit, "'" + path.string() + "' has " + std::to_string(width) + " x " +
                                       std::to_string(height) + " pixels, more than 64 million");
  }
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes, length, &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) {
    throw Error(ErrorCode::kInvalidModel,
                "'" + path.string() + "' is damaged: " + stbi_failure_reason());
  }
  Image image = MakeImage(width, height, 3);
  std::copy_n(pixels.get(), image.pixels.size(), image.pixels.begin());
  return image;
}

Image Resize(const Image& image, int width, int height) {
  if (width < 1 || height < 1 || int64_t{width} * height > kMaxPixels) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a picture cannot be resized to " + std::to_string(width) + " x " + std::to_string(height));
  }
  if (width == image.width && height == image.height) return image;
  return ResizeHeight(ResizeWidth(image, width), height);
}

Image ToGray(const Image& image) {
  if (image.channels == 1) return image;
  Image gray = MakeImage(image.width, image.height, 1);
  for (size_t i = 0; i < gray.pixels.size(); ++i) {
    const float* rgb = image.pixels.data() + 3 * i;
    gray.pixels[i] = 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
  }
  return gray;
}

Tensor ImageToTensor(const Image& image, const Port& port, const Normalization& normalization) {
  const auto [channels, height, width] = PictureShape(port);
  if (channels != 1 && channels != 3 && channels != Shape::kUnknown) {
    throw Error(ErrorCode::kInvalidArgument, "input " + port.name + " takes " +
                                                 std::to_string(channels) +
                                                 " channels; a picture has 1 or 3");
  }
  const int64_t to_width = width < 0 ? image.width : std::min<int64_t>(width, INT_MAX);
  const int64_t to_height = height < 0 ? image.height : std::min<int64_t>(height, INT_MAX);
  const Image fitted = Resize(channels == 1 ? ToGray(image) : image, static_cast<int>(to_width),
                              static_cast<int>(to_height));

  Shape shape{1, fitted.channels, fitted.height, fitted.width};
  while (port.has_shape && shape.rank() > port.shape.rank()) shape.Erase(0);
  const bool raw = IsInteger(port.dtype);
  Tensor tensor(DType::kF32, shape);
  float* out = tensor.data<float>();
  for (int c = 0; c < fitted.channels; ++c) {
    const double mean = PerChannel(normalization.mean, c, fitted.channels, 0, "--mean");
    const double std = PerChannel(normalization.std, c, fitted.channels, 1, "--std");
    for (int y = 0; y < fitted.height; ++y) {
      for (int x = 0; x < fitted.width; ++x) {
        const double pixel = fitted.at(y, x, c) / 255;
        const double value = normalization.invert ? 1 - pixel : pixel;
        *out++ = static_cast<float>(raw ? std::round(255 * value) : (value - mean) / std);
      }
    }
  }
  return tensor.To(port.dtype == DType::kNull ? DType::kF32 : port.dtype);
}

}  // namespace oort::cli
