// SPDX-License-Identifier: MIT
#include "quantize/correct.h"

#include <algorithm>
#include <array>

#include "graph/passes/rewrite.h"

namespace oort::quantize {
namespace {

/// Both elements of a parameter that is a number or a pair; `fallback` where it is absent.
std::array<int64_t, 2> Pair(const Operator& op, const char* name, int64_t fallback) {
  const Value value = ParameterValue(op, name);
  if (value.IsNone()) return {fallback, fallback};
  const std::vector<int64_t> list = value.AsInts();
  return {list.front(), list.back()};
}

/// As Grid::Round, of finite values: limits come first, so that vectors do all of it.
std::vector<float> Rounded(std::span<const float> values, const Grid& grid) {
  constexpr float kRounding = 0x1.8p23f;  // a sum with it has no bits behind the point
  const float inverse = 1 / grid.scale;
  const auto low = static_cast<float>(-grid.zero_point);
  const auto high = static_cast<float>(255 - grid.zero_point);
  std::vector<float> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    float steps = values[i] * inverse;
    steps = steps > low ? steps : low;
    steps = steps < high ? steps : high;
    rounded[i] = ((steps + kRounding) - kRounding) * grid.scale;
  }
  return rounded;
}

}  // namespace

InputSums::InputSums(const Operator& layer) : convolution_(layer.type == "nn.Conv2d") {
  const Tensor& weight = layer.attributes.at("weight");
  if (!convolution_) {
    channels_ = weight.dim(1);
  } else {
    const Value groups = ParameterValue(layer, "groups");
    groups_ = groups.IsNone() ? 1 : groups.AsInt();
    channels_ = weight.dim(1) * groups_;
    const auto stride = Pair(layer, "stride", 1), dilation = Pair(layer, "dilation", 1);
    const Value padding = ParameterValue(layer, "padding");
    const bool same = padding.IsString() && padding.AsString() == "same";
    const auto pad = padding.IsString() ? std::array<int64_t, 2>{0, 0} : Pair(layer, "padding", 0);
    rows_ = {stride[0], pad[0], dilation[0], weight.dim(2), same};
    columns_ = {stride[1], pad[1], dilation[1], weight.dim(3), same};
  }
  const auto taps = static_cast<size_t>(rows_.kernel * columns_.kernel);
  exact_.assign(static_cast<size_t>(channels_) * taps, 0);
  rounded_ = exact_;
}

int64_t InputSums::Axis::Begin() const { return same ? dilation * (kernel - 1) / 2 : pad; }

int64_t InputSums::Axis::Out(int64_t extent) const {
  if (same) return extent;
  return std::max<int64_t>(0, (extent + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1);
}

void InputSums::AddImage(std::span<const float> image, int64_t height, int64_t width,
                         std::vector<double>& sums) const {
  const int64_t out_rows = rows_.Out(height), out_columns = columns_.Out(width);
  std::vector<double> down(static_cast<size_t>(width));  // a row of taps sees the same rows
  size_t at = 0;
  for (int64_t channel = 0; channel < channels_; ++channel) {
    const float* plane = image.data() + channel * height * width;
    for (int64_t ky = 0; ky < rows_.kernel; ++ky) {
      std::fill(down.begin(), down.end(), 0);
      for (int64_t oy = 0; oy < out_rows; ++oy) {
        const int64_t y = oy * rows_.stride + ky * rows_.dilation - rows_.Begin();
        if (y < 0 || y >= height) continue;
        const float* row = plane + y * width;
        for (size_t x = 0; x < down.size(); ++x) down[x] += static_cast<double>(row[x]);
      }
      for (int64_t kx = 0; kx < columns_.kernel; ++kx, ++at) {
        for (int64_t ox = 0; ox < out_columns; ++ox) {
          const int64_t x = ox * columns_.stride + kx * columns_.dilation - columns_.Begin();
          if (x >= 0 && x < width) sums[at] += down[static_cast<size_t>(x)];
        }
      }
    }
  }
}

void InputSums::Add(const Tensor& input, const Grid& grid) {
  const std::span<const float> values = input.span<float>();
  const std::vector<float> rounded = Rounded(values, grid);
  // A linear layer is a convolution of images of one pixel.
  const int64_t height = convolution_ ? input.dim(-2) : 1, width = convolution_ ? input.dim(-1) : 1;
  const auto image = static_cast<size_t>(channels_ * height * width);
  for (size_t begin = 0; image > 0 && begin + image <= values.size(); begin += image) {
    AddImage(values.subspan(begin, image), height, width, exact_);
    AddImage(std::span<const float>(rounded).subspan(begin, image), height, width, rounded_);
    windows_ += rows_.Out(height) * columns_.Out(width);
  }
}

std::vector<float> InputSums::Correction(const Tensor& weight,
                                         const QuantizedWeights& rounded) const {
  const std::span<const float> values = weight.span<float>();
  const auto rows = rounded.scales.size();
  const size_t columns = rows == 0 ? 0 : values.size() / rows;
  std::vector<float> correction(rows, 0);
  if (windows_ == 0) return correction;
  const size_t rows_per_group = rows / static_cast<size_t>(groups_);
  for (size_t row = 0; row < rows; ++row) {
    // The input channels of a group follow each other, and so do their sums.
    const size_t first = row / rows_per_group * columns;
    double sum = 0;
    for (size_t k = 0; k < columns; ++k) {
      const double exact = static_cast<double>(values[row * columns + k]);
      const double rough =
          static_cast<double>(rounded.scales[row]) * rounded.values[row * columns + k];
      sum += exact * exact_[first + k] - rough * rounded_[first + k];
    }
    correction[row] = static_cast<float>(sum / static_cast<double>(windows_));
  }
  return correction;
}

}  // namespace oort::quantize
