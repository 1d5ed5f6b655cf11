// SPDX-License-Identifier: MIT
#include <algorithm>
#include <climits>
#include <cmath>
#include <numbers>
#include <string>

#include "oort/image.h"

namespace oort {
namespace {

/// The pixels that one new pixel is made of, and their weights.
struct PixelTaps {
  int first = 0;
  std::vector<float> weights;
};

double Triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

/// Keys' cubic; a = -0.5 where Pillow and torch smooth, -0.75 where torch and OpenCV do not.
double Cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

double Sinc(double x) {
  const double angle = std::numbers::pi * x;
  return x == 0 ? 1 : std::sin(angle) / angle;
}
/// A sinc under the middle of one that is three times as wide.
double Lanczos(double x) { return std::abs(x) < 3 ? Sinc(x) * Sinc(x / 3) : 0; }

double RadiusOf(Filter filter) {
  return filter == Filter::kLanczos ? 3 : filter == Filter::kBicubic ? 2 : 1;
}
double WeightAt(double x, Filter filter) {
  if (filter == Filter::kLanczos) return Lanczos(x);
  return filter == Filter::kBicubic ? Cubic(x, -0.5) : Triangle(x);
}

/// Weights of all pixels under a filter that is as wide as the larger of the two pixel sizes.
std::vector<PixelTaps> SmoothTaps(int from, int to, Filter filter) {
  const double scale = static_cast<double>(from) / to, stretch = std::max(scale, 1.0);
  const double radius = RadiusOf(filter) * stretch;
  std::vector<PixelTaps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(std::floor(center - radius + 0.5)));
    const int last = std::min(from, static_cast<int>(std::floor(center + radius + 0.5)));
    PixelTaps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    std::vector<double> weights;
    double sum = 0;
    for (int j = first; j < last; ++j) {
      const double x = (j + 0.5 - center) / stretch;
      weights.push_back(WeightAt(x, filter));
      sum += weights.back();
    }
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return all;
}

/// The nearest pixels alone; those beyond the edge are the edge's.
std::vector<PixelTaps> SharpTaps(int from, int to, Filter filter) {
  const double scale = static_cast<double>(from) / to;
  std::vector<PixelTaps> all(static_cast<size_t>(to));
  for (int i = 0; i < to; ++i) {
    PixelTaps& taps = all[static_cast<size_t>(i)];
    if (filter == Filter::kNearest) {
      taps = {std::min(from - 1, static_cast<int>(i * scale)), {1.0f}};
      continue;
    }
    const bool cubic = filter == Filter::kBicubic;
    double center = (i + 0.5) * scale - 0.5;
    if (!cubic) center = std::max(center, 0.0);
    const int base = static_cast<int>(std::floor(center));
    const int begin = cubic ? base - 1 : base, end = cubic ? base + 3 : base + 2;
    taps.first = std::clamp(begin, 0, from - 1);
    taps.weights.resize(static_cast<size_t>(std::clamp(end - 1, 0, from - 1) - taps.first + 1));
    for (int j = begin; j < end; ++j) {
      const double weight = cubic ? Cubic(j - center, -0.75) : Triangle(j - center);
      const int place = std::clamp(j, 0, from - 1) - taps.first;
      taps.weights[static_cast<size_t>(place)] += static_cast<float>(weight);
    }
  }
  return all;
}

std::vector<PixelTaps> TapsFor(int from, int to, const ResizeOptions& options) {
  const bool smooth = options.antialias && options.filter != Filter::kNearest;
  return smooth ? SmoothTaps(from, to, options.filter) : SharpTaps(from, to, options.filter);
}

/// A row of the new height, still of the old width.
void MixRows(const Image& image, const PixelTaps& taps, std::vector<float>& row) {
  std::fill(row.begin(), row.end(), 0.0f);
  const size_t width = row.size();
  for (size_t k = 0; k < taps.weights.size(); ++k) {
    const float* in = image.pixels.data() + (static_cast<size_t>(taps.first) + k) * width;
    const float weight = taps.weights[k];
    for (size_t x = 0; x < width; ++x) row[x] += weight * in[x];
  }
}

template <size_t kChannels>
void MixColumns(const std::vector<float>& row, const std::vector<PixelTaps>& columns, float* out) {
  for (const PixelTaps& taps : columns) {
    const float* in = row.data() + static_cast<size_t>(taps.first) * kChannels;
    std::array<float, kChannels> sums{};
    for (size_t k = 0; k < taps.weights.size(); ++k) {
      for (size_t c = 0; c < kChannels; ++c) sums[c] += taps.weights[k] * in[k * kChannels + c];
    }
    out = std::copy(sums.begin(), sums.end(), out);
  }
}

}  // namespace

Image Resize(const Image& image, int width, int height, const ResizeOptions& options) {
  if (width < 1 || height < 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a picture cannot be resized to " + std::to_string(width) + " x " + std::to_string(height));
  }
  if (options.filter == Filter::kLanczos && !options.antialias) {
    throw Error(ErrorCode::kInvalidArgument, "there is no Lanczos filter without antialias");
  }
  if (width == image.width && height == image.height) return image;
  Image result = MakeImage(width, height, image.channels);
  const std::vector<PixelTaps> rows = TapsFor(image.height, height, options);
  const std::vector<PixelTaps> columns = TapsFor(image.width, width, options);
  std::vector<float> row(static_cast<size_t>(image.width) * static_cast<size_t>(image.channels));
  float* out = result.pixels.data();
  for (const PixelTaps& taps : rows) {
    MixRows(image, taps, row);
    image.channels == 3 ? MixColumns<3>(row, columns, out) : MixColumns<1>(row, columns, out);
    out += static_cast<size_t>(width) * static_cast<size_t>(image.channels);
  }
  return result;
}

Image ResizeShorter(const Image& image, int side, const ResizeOptions& options) {
  const int shorter = std::min(image.width, image.height);
  const int longer = std::max(image.width, image.height);
  const int64_t other = int64_t{side} * longer / shorter;
  if (side < 1 || other > INT_MAX) {
    throw Error(ErrorCode::kInvalidArgument,
                "the shorter side of a picture cannot become " + std::to_string(side));
  }
  const int rest = static_cast<int>(other);
  return image.width <= image.height ? Resize(image, side, rest, options)
                                     : Resize(image, rest, side, options);
}

Letterboxed Letterbox(const Image& image, int width, int height, const LetterboxOptions& options) {
  const double scale = std::min(static_cast<double>(width) / image.width,
                                static_cast<double>(height) / image.height);
  const auto fitted = [&](int extent, int most) {
    return std::clamp(static_cast<int>(std::nearbyint(extent * scale)), 1, std::max(most, 1));
  };
  const Image small =
      Resize(image, fitted(image.width, width), fitted(image.height, height), options.resize);
  Letterboxed result;
  result.scale = static_cast<float>(scale);
  result.original_width = image.width;
  result.original_height = image.height;
  if (options.centered) {
    result.left = (width - small.width) / 2;
    result.top = (height - small.height) / 2;
  }
  result.image = Crop(small, -result.left, -result.top, width, height, options.fill);
  return result;
}

Box Letterboxed::ToOriginal(const Box& box) const {
  const auto back = [this](float value, int start, int extent) {
    return std::clamp((value - static_cast<float>(start)) / scale, 0.0f,
                      static_cast<float>(extent));
  };
  return {back(box.x0, left, original_width), back(box.y0, top, original_height),
          back(box.x1, left, original_width), back(box.y1, top, original_height)};
}

}  // namespace oort
