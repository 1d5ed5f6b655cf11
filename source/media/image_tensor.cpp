// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <string>

#include "oort/image.h"

namespace oort {
namespace {

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

/// One channel behind the other: pixel * scale + shift, or what `raw` asks for.
void FillPlane(const Image& image, int channel, const Normalization& normalization, bool raw,
               float* out) {
  const double mean = PerChannel(normalization.mean, channel, image.channels, 0, "--mean");
  const double std = PerChannel(normalization.std, channel, image.channels, 1, "--std");
  const size_t count = image.pixels.size() / static_cast<size_t>(image.channels);
  const float* in = image.pixels.data() + channel;
  for (size_t i = 0; i < count; ++i) {
    const double pixel = in[i * static_cast<size_t>(image.channels)] / 255.0;
    const double value = normalization.invert ? 1 - pixel : pixel;
    out[i] = static_cast<float>(raw ? std::round(255 * value) : (value - mean) / std);
  }
}

Tensor Planes(const Image& image, const Normalization& normalization, bool raw) {
  Tensor tensor(DType::kF32, {1, image.channels, image.height, image.width});
  const int64_t plane = int64_t{image.height} * image.width;
  for (int c = 0; c < image.channels; ++c) {
    FillPlane(image, c, normalization, raw, tensor.data<float>() + c * plane);
  }
  return tensor;
}

}  // namespace

Normalization ImageNetNormalization() {
  return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, false};
}

Tensor ToTensor(const Image& image, const Normalization& normalization) {
  return Planes(image, normalization, false);
}

Image ToImage(const Tensor& tensor) {
  Shape shape = tensor.shape();
  if (shape.rank() == 4 && shape[0] == 1) shape.Erase(0);
  if (shape.rank() != 3 || tensor.dtype() != DType::kF32 || (shape[0] != 1 && shape[0] != 3) ||
      shape[1] > INT_MAX || shape[2] > INT_MAX) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a picture is made of f32 (C,H,W) with 1 or 3 channels, not of " + tensor.ToString());
  }
  Image image =
      MakeImage(static_cast<int>(shape[2]), static_cast<int>(shape[1]), static_cast<int>(shape[0]));
  const float* in = tensor.data<float>();
  const auto channels = static_cast<size_t>(image.channels);
  const size_t plane = image.pixels.size() / channels;
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < plane; ++i) {
      const float pixel = 255 * in[c * plane + i];
      image.pixels[i * channels + c] = pixel > 0 ? std::min(pixel, 255.0f) : 0;  // NaN is black
    }
  }
  return image;
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
  const Tensor tensor = Planes(fitted, normalization, IsInteger(port.dtype));
  Shape shape = tensor.shape();
  while (port.has_shape && shape.rank() > port.shape.rank()) shape.Erase(0);
  return tensor.Reshaped(shape).To(port.dtype == DType::kNull ? DType::kF32 : port.dtype);
}

}  // namespace oort
